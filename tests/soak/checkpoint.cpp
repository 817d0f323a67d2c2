// Jobs that save checkpoints, also behind their training, and are killed at any moment of it: what the next one finds is whole, and is what
// was saved last. COUNT jobs of each kind.
// usage: soak_checkpoint COUNT SEED

#include "weft/checkpoint/checkpoint.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "support/temporary_folder.hpp"
#include "unit/checkpoint/states.hpp"
#include "weft/checkpoint/saver.hpp"

namespace {

using namespace weft;
using checkpoint::Checkpoint;

constexpr int ranks = 2;

std::vector<test::WholeTensor> state_of(std::int64_t step) {
  auto all = test::random_tensors(7, 60000);
  for (test::WholeTensor& one : all) one.bytes.front() = static_cast<std::byte>(step);
  return all;
}

std::int64_t newest_step(const std::string& folder) {
  const auto found = Checkpoint::newest(folder);
  return found ? found->step() : 0;
}

/// Begins the save, trains on after a while, and waits for it.
void save_behind(checkpoint::Saver& saver, std::int64_t step, const Communicator& comm) {
  auto all = state_of(step);
  saver.begin(step, {test::pieces_of(all, comm.rank(), ranks), {{"step", step}}});
  std::this_thread::sleep_for(
      std::chrono::microseconds(test::mixed(static_cast<std::uint64_t>(step)) % 1500));
  saver.release();
  for (test::WholeTensor& one : all) std::ranges::fill(one.bytes, std::byte{0xEE});
  saver.finish();
}

/// A job: continues from the newest checkpoint, and saves step after step. Tells the parent which steps are saved.
[[noreturn]] void save_for_ever(const std::string& folder, int tell, bool behind) {
  run_as_threads(ranks, [&](Communicator comm) {
    checkpoint::Saver saver(comm, folder, {.keep_last = 2});
    const std::int64_t newest = newest_step(folder);
    comm.barrier(Stream()).wait();
    for (std::int64_t step = newest + 1;; ++step) {
      if (behind) {
        save_behind(saver, step, comm);
      } else {
        saver.save(step, test::pieces_of(state_of(step), comm.rank(), ranks), {{"step", step}});
      }
      if (comm.rank() == 0 && write(tell, &step, sizeof(step)) != sizeof(step)) _exit(1);
    }
  });
  _exit(1);
}

bool is_whole(const Checkpoint& found) {
  if (!found.verify().empty() || std::get<std::int64_t>(found.value("step")) != found.step()) return false;
  return std::ranges::all_of(state_of(found.step()), [&](const test::WholeTensor& one) {
    std::vector<std::byte> memory(one.bytes.size());
    const checkpoint::Wanted wanted{one.name, one.shape, 0, View(memory.data(), one.count(), one.dtype)};
    found.read({&wanted, 1});
    return memory == one.bytes;
  });
}

/// The last step that the job said was saved, or the newest before it.
std::int64_t killed_after(const std::string& folder, std::chrono::microseconds moment, bool behind) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::int64_t last = newest_step(folder);
  std::cout.flush();
  const pid_t job = fork();
  if (job == 0) save_for_ever(folder, ends[1], behind);
  close(ends[1]);
  std::this_thread::sleep_for(moment);
  kill(job, SIGKILL);
  int status = 0;
  waitpid(job, &status, 0);
  if (!WIFSIGNALED(status)) last = -1;  // it ended by itself
  for (std::int64_t step = 0; last >= 0 && read(ends[0], &step, sizeof(step)) == sizeof(step);) last = step;
  close(ends[0]);
  return last;
}

/// @returns how many jobs of `count` left something wrong
int failures(bool behind, int count, std::uint64_t seed) {
  const test::TemporaryFolder folder;
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    const auto moment =
        std::chrono::microseconds(test::mixed(seed * 1000 + static_cast<std::uint64_t>(i)) % 120000);
    const std::int64_t said = killed_after(folder.path(), moment, behind);
    const auto all = Checkpoint::all(folder.path());
    // The one after what it said may be complete: it was killed before it said so.
    const bool right =
        said >= 0 && newest_step(folder.path()) >= said && newest_step(folder.path()) <= said + 1 &&
        std::ranges::all_of(all, [](const std::string& path) { return is_whole(Checkpoint(path)); });
    if (right) continue;
    ++failed;
    std::cout << "FAILED: seed " << seed << ", job " << i << ", killed after " << moment.count()
              << " us: it said step " << said << ", found is " << newest_step(folder.path()) << std::endl;
  }
  std::cout << count << " jobs that save " << (behind ? "behind their training" : "and wait") << " killed, "
            << failed << " failed; the last checkpoint has step " << newest_step(folder.path()) << std::endl;
  return newest_step(folder.path()) > 0 ? failed : failed + 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 300;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const int failed = failures(false, count, seed) + failures(true, count, seed);
  return failed == 0 ? 0 : 1;
}
