// A training loop and its checkpoints: it goes on from the newest one on any number of ranks, saves at times and when asked, and ends when told to.

#include "weft/checkpoint/checkpointer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::checkpoint {
namespace {

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> all;
  for (const std::string& path : Checkpoint::all(folder))
    all.push_back(std::filesystem::path(path).filename());
  return all;
}

TEST(Checkpointer, WithoutAFolderItDoesNothing) {
  run_as_threads(2, [&](Communicator comm) {
    Checkpointer none(comm, {.every = 1});
    EXPECT_EQ(none.resume([](const Checkpoint&) { ADD_FAILURE(); }), 0);
    EXPECT_TRUE(none.after_step(1, true, [] {
      ADD_FAILURE();
      return State{};
    }));
    EXPECT_TRUE(none.after_step(2, true, {{"x", View()}}));
    none.release();
    EXPECT_FALSE(none.told_to_end());
  });
}

TEST(Checkpointer, ReplicasMayChangeAtOnceAndAreLoadedByAnyNumberOfRanks) {
  const test::TemporaryFolder folder;
  const CheckpointerOptions options{.folder = folder.path(), .every = 2, .keep_last = 0, .run = "a"};
  run_as_threads(3, [&](Communicator comm) {
    std::vector<float> weights(1 << 18, 0.0F);
    Checkpointer checkpointer(comm, options);
    EXPECT_EQ(checkpointer.resume({{"weights", View(std::span(weights))}}), 0);
    for (std::int64_t step = 0; step < 5; ++step) {
      std::ranges::fill(weights, static_cast<float>(step + 1));
      EXPECT_TRUE(checkpointer.after_step(step + 1, step == 4, {{"weights", View(std::span(weights))}}));
    }
    EXPECT_FALSE(checkpointer.told_to_end());
  });
  EXPECT_EQ(names(folder.path()),
            (std::vector<std::string>{"step-00000002", "step-00000004", "step-00000005"}));
  for (const std::int64_t step : {2, 4, 5}) {
    std::vector<float> weights(1 << 18);
    const Wanted wanted{"weights", {1 << 18}, 0, View(std::span(weights))};
    Checkpoint(Checkpoint::path_of(folder.path(), step)).read({&wanted, 1});
    EXPECT_EQ(weights, std::vector<float>(1 << 18, static_cast<float>(step)));
  }
  run_as_threads(2, [&](Communicator comm) {
    std::vector<float> weights(1 << 18, 0.0F);
    Checkpointer checkpointer(comm, options);
    EXPECT_EQ(checkpointer.resume({{"weights", View(std::span(weights))}}), 5);
    EXPECT_EQ(weights, std::vector<float>(1 << 18, 5.0F));
    // The step that it was loaded from is not saved again.
    EXPECT_TRUE(checkpointer.after_step(5, true, {{"weights", View(std::span(weights))}}));
  });
}

TEST(Checkpointer, EachRankSavesItsPartWhenAskedAndAnotherRunIsRefused) {
  const test::TemporaryFolder folder;
  run_as_threads(2, [&](Communicator comm) {
    std::vector<float> part(8, static_cast<float>(comm.rank()));
    Checkpointer checkpointer(comm, {.folder = folder.path(), .run = "a"});
    const auto state = [&] {
      State all;
      all.pieces = {{"x", {16}, comm.rank() * 8, ConstView(std::span<const float>(part))}};
      all.values["position"] = std::int64_t{7};
      return all;
    };
    EXPECT_TRUE(checkpointer.after_step(1, false, state));
    comm.barrier(Stream()).wait();
    if (comm.rank() == 1) std::ofstream(folder.path() + "/checkpoint-now") << "";
    comm.barrier(Stream()).wait();
    EXPECT_TRUE(checkpointer.after_step(2, false, state));
    checkpointer.release();
    std::ranges::fill(part, 9.0F);
    EXPECT_TRUE(checkpointer.after_step(3, false, state));
  });
  EXPECT_EQ(names(folder.path()), std::vector<std::string>{"step-00000002"});
  const Checkpoint found(Checkpoint::path_of(folder.path(), 2));
  EXPECT_EQ(std::get<std::int64_t>(found.value("position")), 7);
  std::vector<float> whole(16);
  const Wanted wanted{"x", {16}, 0, View(std::span(whole))};
  found.read({&wanted, 1});
  EXPECT_EQ(whole[0], 0.0F);
  EXPECT_EQ(whole[15], 1.0F);
  run_as_threads(2, [&](Communicator comm) {
    Checkpointer checkpointer(comm, {.folder = folder.path(), .run = "b"});
    test::expect_error(ErrorKind::usage, {"step-00000002 is of another run: a; this is b"},
                       [&] { checkpointer.resume([](const Checkpoint&) { ADD_FAILURE(); }); });
  });
}

}  // namespace
}  // namespace weft::checkpoint
