// Damaged files, a full disk, and kills: what is loaded is what was saved, or an error that names the place.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "states.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/checkpoint/checkpoint.hpp"
#include "weft/checkpoint/saver.hpp"

namespace weft::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::pieces_of;
using test::random_tensors;

void save(const std::string& folder, std::int64_t step, const std::vector<test::WholeTensor>& all) {
  run_as_threads(2,
                 [&](Communicator comm) { Saver(comm, folder).save(step, pieces_of(all, comm.rank(), 2)); });
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

TEST(Damage, OneFlippedBitAnywhereIsFoundAndNamed) {
  const test::TemporaryFolder folder;
  save(folder.path(), 1, random_tensors(9, 20000));
  const std::string checkpoint = folder.path() + "/step-00000001";
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(checkpoint)) files.push_back(entry.path().string());
  std::ranges::sort(files);
  ASSERT_EQ(files.size(), 3U);
  const char* const trials = std::getenv("WEFT_FLIPS");
  test::Draw draw(std::getenv("WEFT_SEED") != nullptr ? std::strtoull(std::getenv("WEFT_SEED"), nullptr, 10)
                                                      : 1);
  for (int i = trials == nullptr ? 60 : std::atoi(trials); i > 0; --i) {
    const std::string& file = files[static_cast<std::size_t>(draw.below(3))];
    const std::string good = content_of(file);
    std::string bad = good;
    // Half of the trials in the first bytes, where the header is.
    const std::size_t at = static_cast<std::size_t>(draw.below(
        static_cast<int>(draw.once_in(2) ? std::min<std::size_t>(600, good.size()) : good.size())));
    bad[at] = static_cast<char>(bad[at] ^ (1 << draw.below(8)));
    write(file, bad);
    if (file.ends_with("index.json")) {
      test::expect_error(ErrorKind::usage, {file, "checksum"}, [&] { Checkpoint one(checkpoint); });
    } else {
      const auto found = Checkpoint(checkpoint).verify();
      ASSERT_EQ(found.size(), 1U) << file << ", byte " << at;
      EXPECT_NE(found[0].find(file), std::string::npos) << found[0];
      EXPECT_TRUE(found[0].find("header") != std::string::npos ||
                  found[0].find("tensor layer") != std::string::npos)
          << found[0];
    }
    write(file, good);
  }
  EXPECT_TRUE(Checkpoint(checkpoint).verify().empty());
}

TEST(Damage, AMissingShorterOrLongerFileIsNamed) {
  const test::TemporaryFolder folder;
  const auto all = random_tensors(9, 20000);
  save(folder.path(), 1, all);
  const Checkpoint from = *Checkpoint::newest(folder.path());
  const std::string file = from.path() + "/rank-00001.safetensors";
  const std::string good = content_of(file);
  std::vector<std::byte> memory(all[1].bytes.size());
  const auto read = [&] {
    from.read(std::vector<Wanted>{
        {all[1].name, all[1].shape, 0, View(memory.data(), all[1].count(), all[1].dtype)}});
  };
  write(file, good.substr(0, good.size() - 1));
  test::expect_error(ErrorKind::system, {file, "were written"}, read);
  write(file, good + "x");
  test::expect_error(ErrorKind::system, {file, "were written"}, read);
  fs::remove(file);
  test::expect_error(ErrorKind::system, {file, "No such file", "older checkpoint"}, read);
  EXPECT_EQ(from.verify().size(), 1U);
}

void fill_disks(bool behind) {
  const test::TemporaryFolder folder;
  const auto all = random_tensors(9, 20000);
  save(folder.path(), 1, all);
  const auto largest =
      static_cast<rlim_t>(fs::file_size(folder.path() + "/step-00000001/rank-00001.safetensors"));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const char* const trials = std::getenv("WEFT_FULL_DISKS");
  test::Draw draw(2);
  for (int i = trials == nullptr ? 5 : std::atoi(trials); i > 0; --i) {
    const rlimit limit{200 + static_cast<rlim_t>(draw.below(static_cast<int>(largest) - 200)),
                       before.rlim_max};
    run_as_threads(2, [&](Communicator comm) {
      const auto set = [&](const rlimit& to) {  // of the process, for shared memory is a file, too
        comm.barrier(Stream()).wait();
        if (comm.rank() == 0) setrlimit(RLIMIT_FSIZE, &to);
        comm.barrier(Stream()).wait();
      };
      Saver saver(comm, folder.path());
      if (behind) {  // the first one connects the ranks anew, in shared memory
        saver.begin(1, {pieces_of(all, comm.rank(), 2), {}});
        saver.finish();
      }
      set(limit);
      test::expect_error(ErrorKind::system, {"cannot write", "File too large"}, [&] {
        if (behind) {
          saver.begin(2, {pieces_of(all, comm.rank(), 2), {}});
          saver.finish();
        } else {
          saver.save(2, pieces_of(all, comm.rank(), 2));
        }
      });
      set(before);
    });
    EXPECT_EQ(Checkpoint::all(folder.path()).size(), 1U);
    EXPECT_FALSE(fs::exists(folder.path() + "/step-00000002.part"));
  }
  EXPECT_TRUE(Checkpoint::newest(folder.path())->verify().empty());
}

TEST(Damage, AFullDiskCostsNothingThatWasThere) {
  fill_disks(false);
}
TEST(Damage, AFullDiskBehindTheTrainingCostsNothingThatWasThere) {
  fill_disks(true);
}

}  // namespace
}  // namespace weft::checkpoint
