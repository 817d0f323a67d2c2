// Saving and loading: any number of ranks, any pieces, and what is refused.

#include "weft/checkpoint/saver.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "states.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/checkpoint/checkpoint.hpp"

namespace weft::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::pieces_of;
using test::random_tensors;
using test::TemporaryFolder;
using test::WholeTensor;

void save_on(int ranks, const std::string& folder, std::int64_t step, const std::vector<WholeTensor>& all,
             const Values& values = {}, SaverOptions options = {}) {
  run_as_threads(ranks, [&](Communicator comm) {
    Saver saver(comm, folder, options);
    saver.save(step, pieces_of(all, comm.rank(), ranks), values);
  });
}

void expect_loads(const Checkpoint& from, const std::vector<WholeTensor>& all, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const auto expected = pieces_of(all, rank, ranks);
    std::vector<std::vector<std::byte>> memory;
    std::vector<Wanted> wanted;
    for (const Piece& piece : expected) {
      memory.emplace_back(static_cast<std::size_t>(piece.count()) * size_of(piece.dtype()) + 1);
      wanted.push_back(
          {piece.tensor, piece.shape, piece.first, View(memory.back().data(), piece.count(), piece.dtype())});
    }
    from.read(wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(
          std::memcmp(memory[i].data(), std::get<ConstView>(expected[i].values).data(), memory[i].size() - 1),
          0)
          << wanted[i].tensor << ", rank " << rank << " of " << ranks;
  }
}

TEST(Checkpoint, OfAnyNumberOfRanksIsLoadedByAnyOther) {
  for (const int saved : {1, 2, 4, 8}) {
    const TemporaryFolder folder;
    const auto all = random_tensors(static_cast<std::uint64_t>(saved));
    save_on(saved, folder.path(), 40, all,
            {{"position", std::int64_t{12345}}, {"scale", 0.1}, {"random", "7 8 9"}});
    const auto found = Checkpoint::newest(folder.path());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->step(), 40);
    EXPECT_EQ(std::get<std::int64_t>(found->value("position")), 12345);
    EXPECT_EQ(std::get<double>(found->value("scale")), 0.1);
    EXPECT_EQ(std::get<std::string>(found->value("random")), "7 8 9");
    EXPECT_EQ(found->verify(), std::vector<std::string>());
    EXPECT_EQ(found->tensors().size(), all.size());
    for (const int loaded : {1, 2, 3, 4, 8}) expect_loads(*found, all, loaded);
  }
}

TEST(Checkpoint, AnyRangeIsLoaded) {
  const TemporaryFolder folder;
  const auto all = random_tensors(5, 3000000);  // several blocks a piece
  save_on(3, folder.path(), 1, all);
  const Checkpoint from(folder.path() + "/step-00000001");
  test::Draw draw(1);
  for (int i = 0; i < 200; ++i) {
    const WholeTensor& one = all[static_cast<std::size_t>(draw.below(static_cast<int>(all.size())))];
    const std::int64_t first = draw.below(static_cast<int>(one.count()));
    const std::int64_t count = draw.below(static_cast<int>(one.count() - first) + 1);
    std::vector<std::byte> memory(static_cast<std::size_t>(count) * size_of(one.dtype) + 1);
    from.read(std::vector<Wanted>{{one.name, one.shape, first, View(memory.data(), count, one.dtype)}});
    EXPECT_EQ(
        std::memcmp(memory.data(), one.bytes.data() + static_cast<std::size_t>(first) * size_of(one.dtype),
                    memory.size() - 1),
        0);
  }
}

// State in a file, or in another form than the checkpoint's: here each value is saved as twice what it is.
TEST(Checkpoint, ElementsMayBeComputedAsTheyAreSavedAndTakenAsTheyAreLoaded) {
  const TemporaryFolder folder;
  constexpr std::int64_t count = 700000;
  run_as_threads(2, [&](Communicator comm) {
    const std::int64_t first = comm.rank() * count / 2;
    std::int64_t next = 0;
    const auto fill = [&](std::int64_t at, View to) {
      EXPECT_EQ(at, std::exchange(next, at + to.count()));
      for (std::int64_t i = 0; i < to.count(); ++i)
        to.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(2 * (first + at + i));
    };
    const Piece mine{"w", {count}, first, Computed{DataType::f32, count / 2, fill}};
    Saver(comm, folder.path()).save(1, std::span(&mine, 1));
    EXPECT_EQ(next, count / 2);
  });
  constexpr std::int64_t from = 100001;
  std::vector<int> seen(count - from);
  const auto take = [&](std::int64_t at, ConstView values) {
    for (const float value : values.as<const float>()) {
      EXPECT_EQ(value, static_cast<float>(2 * (from + at)));
      ++seen[static_cast<std::size_t>(at++)];
    }
  };
  const Wanted wanted{"w", {count}, from, Taken{DataType::f32, count - from, take}};
  Checkpoint::newest(folder.path())->read(std::span(&wanted, 1));
  EXPECT_EQ(seen, std::vector<int>(count - from, 1));
}

TEST(Checkpoint, TheNewestStayAndTheOldestGo) {
  const TemporaryFolder folder;
  const auto all = random_tensors(1, 1000);
  run_as_threads(2, [&](Communicator comm) {
    Saver saver(comm, folder.path() + "/new/folder", {.keep_last = 2});
    for (const std::int64_t step : {9, 10, 8, 100000000}) saver.save(step, pieces_of(all, comm.rank(), 2));
  });
  EXPECT_EQ(Checkpoint::all(folder.path() + "/new/folder"),
            (std::vector<std::string>{folder.path() + "/new/folder/step-00000008",
                                      folder.path() + "/new/folder/step-100000000"}));
  EXPECT_EQ(Checkpoint::newest(folder.path() + "/new/folder")->step(), 100000000);
  EXPECT_FALSE(Checkpoint::newest(folder.path() + "/none"));
  EXPECT_FALSE(Checkpoint::newest(folder.path()));
}

TEST(Checkpoint, WhatAKilledJobLeftIsRemoved) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() + "/step-00000008.part");
  std::ofstream(folder.path() + "/step-00000008.part/rank-00000.safetensors") << "half";
  std::ofstream(folder.path() + "/notes.part") << "mine";
  EXPECT_FALSE(Checkpoint::newest(folder.path()));
  save_on(2, folder.path(), 8, random_tensors(1, 1000));
  EXPECT_FALSE(fs::exists(folder.path() + "/step-00000008.part"));
  EXPECT_TRUE(fs::exists(folder.path() + "/notes.part"));
  EXPECT_EQ(Checkpoint::newest(folder.path())->step(), 8);
}

/// All ranks refuse with the same words, and the folder is as before.
void expect_refused(ErrorKind kind, std::initializer_list<std::string> words, const std::string& folder,
                    int ranks, const std::function<void(Saver&, int)>& save) {
  run_as_threads(ranks, [&](Communicator comm) {
    Saver saver(comm, folder);
    test::expect_error(kind, words, [&] { save(saver, comm.rank()); });
    const float one = 1;
    const Piece whole{"w", {1}, 0, ConstView(std::span(&one, 1))};
    saver.save(7, std::span(&whole, comm.rank() == 0 ? 1 : 0));  // it can be used on
  });
  EXPECT_EQ(Checkpoint::newest(folder)->step(), 7);
  fs::remove_all(folder + "/step-00000007");
  for (const auto& entry : fs::directory_iterator(folder)) EXPECT_EQ(entry.path().filename(), ".weft-saver");
}

TEST(Saver, RefusesWhatIsNotAWholeState) {
  const TemporaryFolder folder;
  const std::vector<float> values(100);
  const auto piece = [&](std::int64_t first, std::int64_t count, std::vector<std::int64_t> shape = {10, 10}) {
    return Piece{"w", std::move(shape), first, ConstView(std::span(values)).slice(0, count)};
  };
  const auto refuses = [&](ErrorKind kind, std::initializer_list<std::string> words,
                           const std::function<std::vector<Piece>(int)>& pieces) {
    expect_refused(kind, words, folder.path(), 2,
                   [&](Saver& saver, int rank) { saver.save(3, pieces(rank)); });
  };
  refuses(ErrorKind::usage, {"tensor w", "[50, 60)"},
          [&](int rank) { return std::vector{rank == 0 ? piece(0, 50) : piece(60, 40)}; });
  refuses(ErrorKind::usage, {"saved twice", "rank-00000", "rank-00001"},
          [&](int) { return std::vector{piece(0, 100)}; });
  refuses(ErrorKind::usage, {"rank 1", "elements [60, 110) of 100"},
          [&](int rank) { return std::vector{rank == 0 ? piece(0, 60) : piece(60, 50)}; });
  refuses(ErrorKind::usage, {"another shape"},
          [&](int rank) { return std::vector{rank == 0 ? piece(0, 60) : piece(60, 40, {100})}; });
  refuses(ErrorKind::usage, {"rank 1", "too many elements"}, [&](int rank) {
    return std::vector{rank == 0 ? piece(0, 100) : piece(0, 10, {1LL << 40, 1LL << 40})};
  });
  refuses(ErrorKind::usage, {"rank 0: w[0:50] is saved twice"}, [&](int rank) {
    return rank == 0 ? std::vector{piece(0, 50), piece(0, 50)} : std::vector{piece(50, 50)};
  });
  expect_refused(ErrorKind::usage, {"value scale is inf"}, folder.path(), 3, [&](Saver& saver, int) {
    saver.save(3, {}, {{"scale", HUGE_VAL}});
  });
  expect_refused(ErrorKind::mismatch, {"rank 2: it saves step 4 and rank 0 step 3"}, folder.path(), 3,
                 [&](Saver& saver, int rank) { saver.save(rank == 2 ? 4 : 3, {}); });
  run_as_threads(2, [&](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"keep_last is -1"},
                       [&] { Saver(comm, folder.path(), {.keep_last = -1}); });
  });
}

TEST(Saver, ReplacesAStepThatIsThereOnceTheNewOneIsComplete) {
  const TemporaryFolder folder;
  const auto before = random_tensors(3, 1000);
  const auto after = random_tensors(4, 1000);
  save_on(2, folder.path(), 5, before);
  run_as_threads(2, [&](Communicator comm) {
    Saver saver(comm, folder.path());
    auto some = pieces_of(before, comm.rank(), 2);
    some.resize(comm.rank() == 0 ? 3 : 2);
    test::expect_error(ErrorKind::usage, {"no rank saves"}, [&] { saver.save(5, some); });
    if (comm.rank() == 0) expect_loads(*Checkpoint::newest(folder.path()), before, 2);
  });
  save_on(2, folder.path(), 5, after);
  expect_loads(*Checkpoint::newest(folder.path()), after, 2);
  EXPECT_EQ(Checkpoint::all(folder.path()).size(), 1U);
}

TEST(Saver, RefusesAFolderThatAnotherJobSavesInto) {
  const TemporaryFolder folder;
  const Saver first(self(), folder.path());
  run_as_threads(2, [&](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"another job saves into", "process " + std::to_string(getpid())},
                       [&] { Saver(comm, folder.path()); });
  });
}

TEST(Saver, RefusesAFolderThatCannotBeWritten) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  run_as_threads(2, [&](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"cannot save into", "Not a directory"},
                       [&] { Saver(comm, folder.path() + "/file"); });
  });
  if (geteuid() == 0) return;  // may write anywhere
  chmod(folder.path().c_str(), 0555);
  test::expect_error(ErrorKind::usage, {"cannot save into", "Permission denied"},
                     [&] { Saver(self(), folder.path()); });
  chmod(folder.path().c_str(), 0755);
}

TEST(Checkpoint, RefusesAnotherModel) {
  const TemporaryFolder folder;
  const auto all = random_tensors(4, 1000);
  save_on(2, folder.path(), 5, all);
  const Checkpoint from = *Checkpoint::newest(folder.path());
  std::vector<std::byte> memory(1 << 20);
  const auto refuses = [&](ErrorKind kind, std::initializer_list<std::string> words, Wanted wanted) {
    test::expect_error(kind, words, [&] { from.read(std::span(&wanted, 1)); });
  };
  const WholeTensor& one = all[1];
  const View view(memory.data(), one.count(), one.dtype);
  refuses(ErrorKind::mismatch, {"no tensor layer1.weigth", "it has layer1.weight"},
          {"layer1.weigth", one.shape, 0, view});
  refuses(ErrorKind::mismatch, {"no tensor embedding", "build the model"}, {"embedding", one.shape, 0, view});
  refuses(ErrorKind::mismatch, {"tensor layer1.weight is", "here"},
          {one.name, {one.shape[1], one.shape[0] + 1}, 0, view});
  refuses(ErrorKind::mismatch, {"tensor layer1.weight is", "i16["},
          {one.name, one.shape, 0, View(memory.data(), 4, DataType::i16)});
  refuses(ErrorKind::usage, {"elements [1, "}, {one.name, one.shape, 1, view});
  test::expect_error(ErrorKind::usage, {"no value \"scale\""}, [&] { (void)from.value("scale"); });
  test::expect_error(ErrorKind::usage, {"step-00000006/index.json", "No such file"},
                     [&] { Checkpoint(folder.path() + "/step-00000006"); });
}

TEST(Checkpoint, ExportsOneWholeFile) {
  const TemporaryFolder folder;
  const auto all = random_tensors(6);
  save_on(4, folder.path(), 5, all);
  const std::string file = folder.path() + "/model.safetensors";
  Checkpoint::newest(folder.path())->export_whole(file);
  save_on(1, folder.path() + "/one", 5, all);
  // One rank's file has the tensors whole, too. Those of one width stand in another order.
  EXPECT_EQ(fs::file_size(file), fs::file_size(folder.path() + "/one/step-00000005/rank-00000.safetensors"));
  std::string content(std::istreambuf_iterator<char>(std::ifstream(file).rdbuf()), {});
  for (const WholeTensor& one : all)
    EXPECT_NE(
        content.find(std::string_view(reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size())),
        std::string::npos)
        << one.name;
  test::expect_error(ErrorKind::usage, {"/none/file", "No such file"},
                     [&] { Checkpoint::newest(folder.path())->export_whole("/none/file"); });
}

}  // namespace
}  // namespace weft::checkpoint
