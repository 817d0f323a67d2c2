// Which checkpoints stay, and which one is the newest: every order of up to 6 saves, each of which may go on from any checkpoint that is there,
// beside a list to which each save is appended and from which the first goes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "checkpoint/index.hpp"
#include "checkpoint/saving/folder.hpp"
#include "support/draw.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/checkpoint/checkpoint.hpp"
#include "weft/checkpoint/checkpointer.hpp"
#include "weft/checkpoint/saver.hpp"
#include "weft/core/log.hpp"

namespace weft::checkpoint {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

/// Its folders lie in memory where that is a place for files: thousands of saves would wait for a disk.
class Retention : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (fs::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 0);
  }
  static void TearDownTestSuite() {
    if (const char* const folder = std::getenv("TMPDIR");
        folder != nullptr && folder == std::string("/dev/shm"))
      unsetenv("TMPDIR");
  }
};

/// The obvious twin: steps in the order of saving.
struct Twin {
  int keep = 0;
  Steps there{};
  Steps removed{};  // by the last save, in order

  void save(std::int64_t step) {
    removed.clear();
    if (const auto old = std::ranges::find(there, step); old != there.end()) {
      removed.push_back(step);
      there.erase(old);
    }
    there.push_back(step);
    while (keep > 0 && there.size() > static_cast<std::size_t>(keep)) {
      removed.push_back(there.front());
      there.erase(there.begin());
    }
  }
};

Steps steps_in(const std::string& folder) {
  Steps steps;
  for (const std::string& path : Checkpoint::all(folder)) steps.push_back(Checkpoint(path).step());
  return steps;
}

/// The steps that the log says are removed, while one lives.
class Removals {
 public:
  Removals() {
    log::set_level(log::Level::info);
    log::set_sink([this](log::Level, std::string_view line) {
      const auto at = line.find("/step-");
      if (line.find("removing ") == 0 && at != std::string_view::npos)
        said_.push_back(
            *detail::step_of(std::string(line.substr(at + 1, line.find_first_of(": ", at) - at - 1))));
    });
  }
  ~Removals() {
    log::set_sink({});
    log::set_level(log::Level::warn);
  }
  Steps take() { return std::exchange(said_, {}); }

 private:
  Steps said_;
};

/// Before each save: go on as it is (-1), or from the n-th checkpoint that is there.
using Plan = std::vector<int>;

void each_plan(int saves, int keep, const std::function<void(const Plan&)>& run) {
  const std::function<void(Plan, Twin, std::int64_t)> extend = [&](Plan plan, Twin twin, std::int64_t at) {
    if (plan.size() == static_cast<std::size_t>(saves)) return run(plan);
    for (int from = -1; from < static_cast<int>(twin.there.size()); ++from) {
      Twin next = twin;
      const std::int64_t step = 10 + (from < 0 ? at : twin.there[static_cast<std::size_t>(from)]);
      next.save(step);
      Plan longer = plan;
      longer.push_back(from);
      extend(longer, next, step);
    }
  };
  extend({}, {keep}, 0);
}

/// A job that saves one step after the other, and what it is started with.
using Save = std::function<void(std::int64_t step)>;
using Start = std::function<Save(const std::string& folder, int keep)>;

/// @param between what happens to the folder after each save. @returns how many saves were made
int follow(
    const Plan& plan, int keep, const Start& start, Removals& removals, const std::string& folder,
    const std::function<void()>& between = [] {}) {
  Twin twin{keep};
  Save save = start(folder, keep);
  std::int64_t at = 0;
  for (const int from : plan) {
    if (from >= 0) {
      save = {};  // the job before has ended
      save = start(folder, keep);
      at = twin.there[static_cast<std::size_t>(from)];
    }
    save(at += 10);
    twin.save(at);
    EXPECT_EQ(steps_in(folder), twin.there) << ::testing::PrintToString(plan) << ", keep " << keep;
    EXPECT_EQ(Checkpoint::newest(folder)->step(), at) << ::testing::PrintToString(plan);
    EXPECT_EQ(removals.take(), twin.removed) << ::testing::PrintToString(plan) << ", keep " << keep;
    between();
  }
  return static_cast<int>(plan.size());
}

int follow_all(int saves, std::initializer_list<int> keeps, const Start& start) {
  Removals removals;
  int made = 0;
  for (const int keep : keeps) {
    each_plan(saves, keep, [&](const Plan& plan) {
      const test::TemporaryFolder folder;
      made += follow(plan, keep, start, removals, folder.path());
    });
  }
  return made;
}

TEST_F(Retention, GoesByTheOrderOfSavingWhateverWasResumed) {
  const int made = follow_all(6, {0, 1, 2, 3}, [](const std::string& folder, int keep) -> Save {
    const auto saver = std::make_shared<detail::SaveFolder>(folder);
    return [=](std::int64_t step) {
      saver->begin(step);
      saver->publish({.step = step, .values = {}, .files = {}, .tensors = {}});
      if (keep > 0) saver->keep_last(keep, step);
    };
  });
  EXPECT_GT(made, 4000);
}

TEST_F(Retention, OfASaverIsTheSame) {
  follow_all(4, {1, 2, 3}, [](const std::string& folder, int keep) -> Save {
    const auto saver = std::make_shared<Saver>(self(), folder, SaverOptions{.keep_last = keep});
    return [=](std::int64_t step) { saver->save(step, {}); };
  });
}

TEST_F(Retention, BehindTheTrainingIsTheSame) {
  follow_all(4, {1, 2, 3}, [](const std::string& folder, int keep) -> Save {
    const auto saver = std::make_shared<Saver>(self(), folder, SaverOptions{.keep_last = keep});
    return [=](std::int64_t step) {
      saver->begin(step, {});
      saver->finish();
    };
  });
}

TEST_F(Retention, OfACheckpointerIsTheSame) {
  follow_all(4, {1, 2, 3}, [](const std::string& folder, int keep) -> Save {
    const auto saver =
        std::make_shared<Checkpointer>(self(), CheckpointerOptions{.folder = folder, .keep_last = keep});
    return [=](std::int64_t step) { saver->after_step(step, true, [] { return State{}; }); };
  });
}

TEST_F(Retention, KnowsNoClockAndNoPlace) {
  test::Draw draw(1);
  Removals removals;
  each_plan(4, 2, [&](const Plan& plan) {
    const test::TemporaryFolder outside;
    const std::string folder = outside.path() + "/checkpoints";
    const auto disturb = [&] {
      for (const auto& entry : fs::recursive_directory_iterator(folder))
        fs::last_write_time(entry.path(),
                            fs::file_time_type::clock::now() + std::chrono::hours(draw.below(2000) - 1000));
      fs::copy(folder, outside.path() + "/copy", fs::copy_options::recursive);
      fs::rename(folder, outside.path() + "/moved");
      fs::rename(outside.path() + "/copy", folder);
      fs::remove_all(outside.path() + "/moved");
    };
    follow(
        plan, 2,
        [](const std::string& where, int keep) -> Save {
          return [=](std::int64_t step) { Saver(self(), where, {.keep_last = keep}).save(step, {}); };
        },
        removals, folder, disturb);
  });
}

/// As a weft wrote it that did not number its saves.
void save_without_number(const std::string& folder, std::int64_t step) {
  const std::string path = Checkpoint::path_of(folder, step);
  fs::create_directories(path);
  std::ofstream(path + "/index.json")
      << detail::text_of({.step = step, .values = {}, .files = {}, .tensors = {}});
}

TEST_F(Retention, CountsCheckpointsWithoutANumberAsTheOldest) {
  const test::TemporaryFolder folder;
  for (const std::int64_t step : {90, 100, 50}) save_without_number(folder.path(), step);
  EXPECT_EQ(Checkpoint::newest(folder.path())->step(), 100);
  Saver saver(self(), folder.path(), {.keep_last = 3});
  saver.save(60, {});
  EXPECT_EQ(steps_in(folder.path()), (Steps{90, 100, 60}));
  saver.save(70, {});
  EXPECT_EQ(steps_in(folder.path()), (Steps{100, 60, 70}));
}

TEST_F(Retention, ATrainingThatResumedAnOlderStepGoesOnFromItsOwn) {
  const test::TemporaryFolder folder;
  const CheckpointerOptions options{.folder = folder.path(), .every = 10, .keep_last = 3};
  float weight = 0;
  const std::vector<Replica> all{{"weight", View(std::span(&weight, 1))}};
  const auto train = [&](std::int64_t from, std::int64_t to, float value) {
    Checkpointer checkpointer(self(), options);
    EXPECT_EQ(checkpointer.resume(all), from);
    weight = value;
    for (std::int64_t step = from + 1; step <= to; ++step) checkpointer.after_step(step, step == to, all);
  };
  train(0, 50, 1);
  {
    // Another step than the newest is a matter of the one who resumes.
    const Checkpoint older(Checkpoint::path_of(folder.path(), 30));
    const Piece piece{"weight", {1}, 0, View(std::span(&weight, 1))};
    weight = 2;
    Saver(self(), folder.path(), {.keep_last = 3}).save(40, std::span(&piece, 1), older.values());
  }
  EXPECT_EQ(steps_in(folder.path()), (Steps{30, 50, 40}));
  train(40, 60, 3);
  EXPECT_EQ(steps_in(folder.path()), (Steps{40, 50, 60}));
  weight = 0;
  const Wanted wanted{"weight", {1}, 0, View(std::span(&weight, 1))};
  Checkpoint(Checkpoint::path_of(folder.path(), 50)).read(std::span(&wanted, 1));
  EXPECT_EQ(weight, 3) << "step 50 of the training that was left behind";
}

TEST_F(Retention, WhatAKilledReplacementLeftIsPutBackOrRemoved) {
  const test::TemporaryFolder folder;
  const std::string path = Checkpoint::path_of(folder.path(), 10);
  save_without_number(folder.path(), 10);
  fs::rename(path, path + ".replaced");
  fs::create_directory(path + ".part");
  { const Saver next(self(), folder.path()); }
  EXPECT_EQ(steps_in(folder.path()), Steps{10});
  fs::copy(path, path + ".replaced");
  { const Saver next(self(), folder.path()); }
  EXPECT_EQ(steps_in(folder.path()), Steps{10});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()),
            2);  // and the lock
}

// Whatever bit of an index is flipped, no other checkpoint is taken for the newest, and none is removed for it.
TEST_F(Retention, ADamagedIndexIsNoOtherPlaceInTheOrder) {
  const test::TemporaryFolder folder;
  for (const std::int64_t step : {30, 20}) Saver(self(), folder.path()).save(step, {});
  const std::string file = Checkpoint::path_of(folder.path(), 20) + "/index.json";
  std::string whole(std::istreambuf_iterator<char>(std::ifstream(file).rdbuf()), {});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      whole[at] = static_cast<char>(whole[at] ^ (1 << bit));
      std::ofstream(file) << whole;
      EXPECT_THROW((void)Checkpoint::newest(folder.path()), Error) << "byte " << at << ", bit " << bit;
      whole[at] = static_cast<char>(whole[at] ^ (1 << bit));
    }
  }
  std::ofstream(file) << whole.substr(0, 40);
  Saver saver(self(), folder.path(), {.keep_last = 2});
  for (const std::int64_t step : {5, 6}) saver.save(step, {});
  EXPECT_FALSE(fs::exists(Checkpoint::path_of(folder.path(), 30)));
  for (const std::int64_t step : {20, 5, 6})
    EXPECT_TRUE(fs::exists(Checkpoint::path_of(folder.path(), step))) << step;
  fs::remove_all(Checkpoint::path_of(folder.path(), 20));
  EXPECT_EQ(Checkpoint::newest(folder.path())->step(), 6);
}

TEST_F(Retention, ANumberOfASaveHasItsLimits) {
  const test::TemporaryFolder folder;
  const detail::Index last{.step = 1, .save = detail::most_saves, .values = {}, .files = {}, .tensors = {}};
  save_without_number(folder.path(), 1);
  std::ofstream(Checkpoint::path_of(folder.path(), 1) + "/index.json") << detail::text_of(last);
  EXPECT_EQ(Checkpoint::newest(folder.path())->step(), 1);
  test::expect_error(ErrorKind::usage, {"the last number", "another folder"},
                     [&] { Saver(self(), folder.path()).save(2, {}); });
}

}  // namespace
}  // namespace weft::checkpoint
