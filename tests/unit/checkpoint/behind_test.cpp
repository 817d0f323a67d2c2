// Saves behind the training: what is saved is what was there at begin(), whatever the training does then.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "states.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/checkpoint/checkpoint.hpp"
#include "weft/checkpoint/saver.hpp"

namespace weft::checkpoint {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::TemporaryFolder;
using test::WholeTensor;

State state_of(const std::vector<WholeTensor>& all, const Communicator& comm) {
  return {test::pieces_of(all, comm.rank(), comm.size()), {{"position", std::int64_t{12}}}};
}

/// What a step of training does to its memory.
void change(std::vector<WholeTensor>& all) {
  for (WholeTensor& one : all) std::memset(one.bytes.data(), 0xEE, one.bytes.size());
}

void expect_has(const std::string& path, const std::vector<WholeTensor>& all) {
  const Checkpoint from(path);
  EXPECT_EQ(from.verify(), std::vector<std::string>());
  EXPECT_EQ(std::get<std::int64_t>(from.value("position")), 12);
  for (const WholeTensor& one : all) {
    std::vector<std::byte> memory(one.bytes.size());
    const Wanted wanted{one.name, one.shape, 0, View(memory.data(), one.count(), one.dtype)};
    from.read({&wanted, 1});
    EXPECT_TRUE(memory == one.bytes) << one.name << " in " << path;
  }
}

void barrier(Communicator comm) {
  comm.barrier(Stream()).wait();
}

// Released at once, a little later, and when all has long been written.
TEST(SaverBehind, SavesWhatWasThereAtBegin) {
  const TemporaryFolder folder;
  const auto all = test::random_tensors(3, 3000000);
  run_as_threads(3, [&](Communicator comm) {
    Saver saver(comm, folder.path(), {.keep_last = 2});
    EXPECT_EQ(saver.finish(), "");
    for (int step = 1; step <= 8; ++step) {
      auto mine = all;
      saver.begin(step, state_of(mine, comm));
      if (step == 8) {
        while (saver.is_saving()) std::this_thread::sleep_for(1ms);
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(700 * (step - 1)));
      }
      saver.release();
      change(mine);
      EXPECT_EQ(saver.finish(), Checkpoint::path_of(folder.path(), step));
      EXPECT_FALSE(saver.is_saving());
      if (comm.rank() == 0) expect_has(Checkpoint::path_of(folder.path(), step), all);
    }
  });
  EXPECT_EQ(Checkpoint::all(folder.path()).size(), 2U);
}

// Rank 0 begins last, so the other ranks have read nothing when they are released.
TEST(SaverBehind, CopiesWhatWasNotRead) {
  const TemporaryFolder folder;
  const auto all = test::random_tensors(4, 3000000);
  run_as_threads(3, [&](Communicator comm) {
    Saver saver(comm, folder.path());
    saver.begin(1, {{}, {}});
    auto mine = all;
    if (comm.rank() == 0) barrier(comm);
    saver.begin(2, state_of(mine, comm));
    saver.release();
    change(mine);
    if (comm.rank() != 0) barrier(comm);
    saver.finish();
  });
  expect_has(Checkpoint::path_of(folder.path(), 2), all);
}

TEST(SaverBehind, AnOwnerLetsEverySaverReadBeforeItChanges) {
  const TemporaryFolder one;
  const TemporaryFolder other;
  const auto all = test::random_tensors(5, 300000);
  run_as_threads(2, [&](Communicator comm) {
    Saver first(comm, one.path());
    Saver second(comm, other.path());
    auto mine = all;
    State state = state_of(mine, comm);
    const auto hook = state.before_change = std::make_shared<std::function<void()>>();
    first.begin(1, state);
    second.begin(7, state);
    (*hook)();
    change(mine);
    second.finish();
    first.finish();
  });
  expect_has(Checkpoint::path_of(one.path(), 1), all);
  expect_has(Checkpoint::path_of(other.path(), 7), all);
}

// With nothing to copy to, the training waits for the writer, and nothing is computed after that.
TEST(SaverBehind, WaitsForWhatItMayNotCopy) {
  const TemporaryFolder folder;
  constexpr std::int64_t count = 3000000;
  run_as_threads(2, [&](Communicator comm) {
    std::atomic<bool> released = false;
    const auto fill = [&](std::int64_t at, View to) {
      EXPECT_FALSE(released);
      for (std::int64_t i = 0; i < to.count(); ++i)
        to.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>((at + i) % 1000);
    };
    const std::string name = "of rank " + std::to_string(comm.rank());
    Saver saver(comm, folder.path(), {.copy_at_most = 1000});
    saver.begin(1, {{Piece{name, {count}, 0, Computed{DataType::f32, count, fill}}}, {}});
    saver.release();
    released = true;
    saver.finish();
  });
  EXPECT_TRUE(Checkpoint::newest(folder.path())->verify().empty());
}

TEST(SaverBehind, OneRanksFailureIsThrownOnEveryRankAndChangesNothing) {
  const TemporaryFolder folder;
  const auto all = test::random_tensors(6, 300000);
  run_as_threads(3, [&](Communicator comm) {
    Saver saver(comm, folder.path());
    saver.save(1, test::pieces_of(all, comm.rank(), 3), {{"position", std::int64_t{12}}});
    const auto begin_failing = [&](std::int64_t step) {
      State state = state_of(all, comm);
      if (comm.rank() == 2)
        state.pieces.push_back({"bad", {5}, 0, Computed{DataType::f32, 5, [](std::int64_t, const View&) {
                                                          throw Error(ErrorKind::system, "the disk is gone");
                                                        }}});
      saver.begin(step, state);
      saver.release();
    };
    const auto throws = [&](const std::function<void()>& work) {
      test::expect_error(ErrorKind::system, {"rank 2", "the disk is gone"}, work);
    };
    begin_failing(2);
    throws([&] { saver.finish(); });
    EXPECT_EQ(saver.finish(), "");
    begin_failing(3);
    throws([&] { saver.begin(4, state_of(all, comm)); });  // and it is not begun
    begin_failing(5);
    throws([&] { saver.save(6, {}); });
    barrier(comm);
    EXPECT_EQ(Checkpoint::newest(folder.path())->step(), 1);
    barrier(comm);
    saver.begin(7, state_of(all, comm));
    saver.begin(8, state_of(all, comm));
    EXPECT_EQ(saver.finish(), Checkpoint::path_of(folder.path(), 8));
  });
  EXPECT_EQ(Checkpoint::all(folder.path()).size(), 3U);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_FALSE(entry.path().string().ends_with(".part")) << entry.path();
}

TEST(SaverBehind, ItsEndWaitsForTheSave) {
  const TemporaryFolder folder;
  const auto all = test::random_tensors(7, 300000);
  const auto saves_and_ends = [&](Communicator comm, std::int64_t step) {
    Saver saver(comm, folder.path());
    saver.begin(step, state_of(all, comm));
    if (step == 2) throw std::runtime_error("the training failed");
  };
  run_as_threads(2, [&](Communicator comm) {
    saves_and_ends(comm, 1);
    EXPECT_THROW(saves_and_ends(comm, 2), std::runtime_error);
  });
  for (const int step : {1, 2}) expect_has(Checkpoint::path_of(folder.path(), step), all);
}

TEST(SaverBehind, ARankWhoseDiskDoesNotAnswerIsNamedInTime) {
  const TemporaryFolder folder;
  std::atomic<bool> goes_on = false;
  run_as_threads(2, [&](Communicator comm) {
    Saver saver(comm, folder.path(), {.timeout = 1s});
    const auto fill = [&](std::int64_t, const View&) {
      while (!goes_on) std::this_thread::sleep_for(1ms);
    };
    std::vector<Piece> pieces;
    if (comm.rank() == 1) pieces.push_back({"w", {5}, 0, Computed{DataType::f32, 5, fill}});
    saver.begin(1, {std::move(pieces), {}});
    const std::string late = comm.rank() == 1 ? "rank 1 has not finished its part of" : "rank 1";
    test::expect_error(ErrorKind::timeout, {late}, [&] { saver.finish(); });
    if (comm.rank() == 1) goes_on = true;
  });
  EXPECT_TRUE(Checkpoint::all(folder.path()).empty());
}

TEST(SaverBehind, RefusesOptionsThatMakeNoSense) {
  const TemporaryFolder folder;
  test::expect_error(ErrorKind::usage, {"a timeout of 0 ns"},
                     [&] { Saver(self(), folder.path(), {.timeout = 0ns}); });
  Saver saver(self(), folder.path());
  saver.begin(-1, {});
  test::expect_error(ErrorKind::usage, {"step -1 of a checkpoint"}, [&] { saver.finish(); });
}

}  // namespace
}  // namespace weft::checkpoint
