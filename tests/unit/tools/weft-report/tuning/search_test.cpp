// The search against a simulated machine: noise, drift, disturbed runs, and a best setting that is known.
#include "weft-report/tuning/search.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/expect_error.hpp"
#include "weft-report/tuning/candidates.hpp"

namespace weft::report::tuning {
namespace {

using weft::test::expect_error;

constexpr std::array<std::uint64_t, 6> sizes{1024, 8192, 65536, 524288, 4194304, 33554432};

/// What a variable's value or an algorithm does to the time: a factor for each size.
using Factors = std::array<double, 6>;
constexpr Factors same(double factor) {
  return {factor, factor, factor, factor, factor, factor};
}

/// Times are a product of factors, in noise: each size by itself, whole runs, a slow drift, and one run in twenty that something disturbed.
class Machine {
 public:
  explicit Machine(std::uint64_t seed) : random_(seed) {}

  std::map<std::string, Factors> effects{};
  std::string fails{};  ///< runs with this in their text fail

  double truth(const Setting& setting, std::size_t size) const {
    double seconds = 1e-5 + static_cast<double>(sizes[size]) * 1e-9;
    for (const auto& [name, value] : setting.variables) seconds *= factor(name + "=" + value, size);
    return seconds * factor(algorithm_at(setting.ranges, sizes[size]), size);
  }
  /// The mean over sizes of the logarithm of the time.
  double cost(const Setting& setting) const {
    double sum = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) sum += std::log(truth(setting, i));
    return sum / static_cast<double>(sizes.size());
  }
  Outcome run(const Setting& setting) {
    ++runs;
    if (!fails.empty() && setting.text().find(fails) != std::string::npos)
      return {.rows = {}, .problem = "it ended with status 1"};
    const double drift = 0.1 * std::sin(runs / 40.0);
    const double whole = 0.015 * normal_(random_) + (random_() % 20 == 0 ? 0.4 : 0.0) + drift;
    Outcome outcome;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      outcome.rows.push_back({sizes[i], truth(setting, i) * std::exp(whole + 0.03 * normal_(random_))});
    return outcome;
  }
  int runs = 0;

 private:
  double factor(const std::string& name, std::size_t size) const {
    const auto found = effects.find(name);
    return found == effects.end() ? 1 : found->second[size];
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

Space space() {
  return {.variables = {{"TRANSPORT", {"a", "b"}}, {"BUFFER", {"1", "8"}}, {"THREADS", {"4"}}},
          .algorithms = {"ring", "tree", "pairs"}};
}

/// Two variables gain, one of them with only one of its values; the tree is fast for small sizes and the ring for large ones.
void give_effects(Machine& machine) {
  machine.effects = {{"TRANSPORT=a", same(1.3)},
                     {"TRANSPORT=b", same(0.8)},
                     {"BUFFER=8", same(0.92)},
                     {"THREADS=4", same(1.02)},
                     {"tree", {0.6, 0.7, 0.9, 1.2, 2, 3}},
                     {"ring", {2, 1.8, 1.2, 0.9, 0.8, 0.8}},
                     {"pairs", {1.1, 1.0, 1.1, 1.1, 1.0, 1.1}}};
}

const Setting best{.variables = {{"TRANSPORT", "b"}, {"BUFFER", "8"}},
                   .ranges = {{0, "tree"}, {524288, "ring"}}};

Tuning search(Machine& machine, const Effort& effort, std::uint64_t seed) {
  return search(
      space(), effort, seed, [&](const Setting& setting) { return machine.run(setting); },
      [](const Tuning&) {});
}

TEST(TuningSearch, FindsTheBestWithin3PercentIn95Of100Searches) {
  int near = 0;
  int most = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Machine machine(seed);
    give_effects(machine);
    const Tuning tuning = search(machine, Effort(), seed);
    EXPECT_TRUE(tuning.complete);
    EXPECT_EQ(tuning.trials, machine.runs);
    most = std::max(most, tuning.trials);

    near += machine.cost(tuning.kept) <= machine.cost(best) + std::log(1.03) ? 1 : 0;
  }
  EXPECT_GE(near, 475);
  EXPECT_LE(most, most_trials(space(), Effort()));
  RecordProperty("near", near);
  RecordProperty("most_trials", most);
}

TEST(TuningSearch, KeepsNothingWhereAllAreEqualIn95Of100Searches) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Machine machine(seed);
    wrong += search(machine, Effort(), seed).kept == Setting() ? 0 : 1;
  }
  EXPECT_LE(wrong, 25);
  RecordProperty("wrong", wrong);
}

TEST(TuningSearch, KeepsNothingThatIsSlower) {
  Machine machine(3);
  give_effects(machine);
  for (auto& [name, factors] : machine.effects) {
    for (double& one : factors) one = std::max(one, 1.05);
  }
  EXPECT_EQ(search(machine, Effort(), 3).kept, Setting());
}

TEST(TuningSearch, WhatFailsIsDroppedAndSaid) {
  Machine machine(4);
  give_effects(machine);
  machine.fails = "TRANSPORT=b";
  const Tuning tuning = search(machine, Effort(), 4);
  EXPECT_FALSE(tuning.kept.variables.contains("TRANSPORT"));
  EXPECT_TRUE(tuning.kept.variables.contains("BUFFER"));
  ASSERT_FALSE(tuning.notes.empty());
  for (const std::string& note : tuning.notes) {
    EXPECT_NE(note.find("TRANSPORT=b"), std::string::npos) << note;
    EXPECT_NE(note.find(" is dropped: it ended with status 1"), std::string::npos) << note;
  }
}

TEST(TuningSearch, WhatFailsOnlyInTheComparisonIsDroppedToo) {
  Machine machine(4);
  give_effects(machine);
  int calls = 0;
  const Tuning tuning = search(
      space(), Effort(), 4,
      [&](const Setting& setting) -> std::optional<Outcome> {
        if (setting.text().find("TRANSPORT=b") != std::string::npos && ++calls > 25)
          return Outcome{.rows = {}, .problem = "3 elements of 1024 bytes are wrong"};
        return machine.run(setting);
      },
      [](const Tuning&) {});
  EXPECT_FALSE(tuning.kept.variables.contains("TRANSPORT"));
  ASSERT_FALSE(tuning.notes.empty());
  EXPECT_NE(tuning.notes[0].find(" is dropped: 3 elements of 1024 bytes are wrong"), std::string::npos);
}

TEST(TuningSearch, ACommandThatFailsUnchangedIsRefused) {
  expect_error(
      ErrorKind::usage, {"the command is no measurement without any change: it printed no row of times"}, [] {
        search(
            space(), Effort(), 1,
            [](const Setting&) { return Outcome{.rows = {}, .problem = "it printed no row of times"}; },
            [](const Tuning&) {});
      });
}

TEST(TuningSearch, ADisturbedRunOfWhatIsKeptIsRepeated) {
  Machine machine(5);
  give_effects(machine);
  const Tuning tuning = search(
      space(), Effort(), 5,
      [&](const Setting& setting) -> std::optional<Outcome> {
        if (machine.runs == 7 && setting == Setting()) {
          ++machine.runs;
          return Outcome{.rows = {}, .problem = "no answer"};
        }
        return machine.run(setting);
      },
      [](const Tuning&) {});
  EXPECT_TRUE(tuning.complete);
  EXPECT_TRUE(tuning.kept.variables.contains("TRANSPORT"));
}

TEST(TuningSearch, WhereWhatIsKeptDoesNotRunAnyMoreItEndsAndKeepsThat) {
  Machine machine(5);
  give_effects(machine);
  const auto measure = [&](const Setting& setting) -> std::optional<Outcome> {
    if (machine.runs > 75 && setting.variables.contains("TRANSPORT"))
      return Outcome{.rows = {}, .problem = "no answer"};
    return machine.run(setting);
  };
  const Tuning tuning = search(space(), Effort(), 5, measure, [](const Tuning&) {});
  EXPECT_FALSE(tuning.complete);
  EXPECT_EQ(tuning.kept.variables.at("TRANSPORT"), "b");
  EXPECT_EQ(tuning.notes.back(), "the search ends here, for what is kept does not run any more: no answer");
}

TEST(TuningSearch, WithoutTimeItKeepsWhatItHasShown) {
  Machine machine(6);
  give_effects(machine);
  int left = 75;
  const Tuning tuning = search(
      space(), Effort(), 6,
      [&](const Setting& setting) { return left-- > 0 ? std::optional(machine.run(setting)) : std::nullopt; },
      [](const Tuning&) {});
  EXPECT_FALSE(tuning.complete);
  EXPECT_EQ(tuning.trials, 75);
  EXPECT_EQ(tuning.kept.variables.at("TRANSPORT"), "b");
  EXPECT_TRUE(tuning.kept.ranges.empty());
  EXPECT_EQ(tuning.notes.back(), "the time was over before all was tried");
}

TEST(TuningSearch, EveryStepIsShownWhileItRuns) {
  Machine machine(7);
  give_effects(machine);
  std::size_t steps = 0;
  int trials = 0;
  const Tuning tuning = search(
      space(), Effort(), 7, [&](const Setting& setting) { return machine.run(setting); },
      [&](const Tuning& now) {
        EXPECT_GE(now.trials, trials);
        EXPECT_GE(now.steps.size(), steps);
        trials = now.trials;
        steps = now.steps.size();
      });
  EXPECT_EQ(trials, tuning.trials);
  EXPECT_EQ(steps, tuning.steps.size());
}

TEST(TuningSearch, ASpaceWithNothingInItTakesNoRun) {
  int runs = 0;
  const Tuning tuning = search(
      Space(), Effort(), 1,
      [&](const Setting&) {
        ++runs;
        return Outcome();
      },
      [](const Tuning&) {});
  EXPECT_EQ(runs, 0);
  EXPECT_TRUE(tuning.complete);
}

std::vector<Timing> times(double small, double large) {
  return {{1024, small}, {1048576, large}};
}

TEST(TuningCandidates, ARunThatWasDisturbedChangesNoOrder) {
  std::vector<Candidate> all(4);
  all[1].setting.variables = {{"A", "1"}};
  all[2].setting.variables = {{"B", "1"}};
  all[3].setting.variables = {{"A", "1"}, {"B", "1"}};
  add_round({{&all[0], times(100, 1000)},
             {&all[1], times(90, 900)},
             {&all[2], times(95, 950)},
             {&all[3], times(90, 900)}});
  add_round({{&all[0], times(900, 9000)},
             {&all[1], times(900, 9000)},
             {&all[2], times(190, 1900)},
             {&all[3], times(180, 1800)}});
  add_round({{&all[0], times(100, 1000)},
             {&all[1], times(90, 900)},
             {&all[2], times(95, 950)},
             {&all[3], times(90, 900)}});
  const auto sorted = by_worth({&all[1], &all[2], &all[3]}, all[0]);
  EXPECT_EQ(sorted, (std::vector<Candidate*>{&all[1], &all[3],
                                             &all[2]}));  // of two that are alike, the one that changes less
  EXPECT_NEAR(gain_of(all[1], all[0]), std::log(0.9), 0.01);
}

TEST(TuningCandidates, AnAlgorithmCountsForWhatItAdds) {
  std::vector<Candidate> all(4);
  for (std::size_t i = 1; i < 4; ++i) all[i].by_size = true;
  add_round({{&all[0], times(100, 1000)},
             {&all[1], times(50, 2000)},
             {&all[2], times(55, 1500)},
             {&all[3], times(300, 900)}});
  EXPECT_EQ(by_worth({&all[1], &all[2], &all[3]}, all[0]),
            (std::vector<Candidate*>{&all[1], &all[3], &all[2]}));
}

TEST(TuningEffort, GrowsWithTheRunsThatThereIsTimeFor) {
  EXPECT_EQ(effort_for(space(), 0).pairs, 8);
  EXPECT_EQ(effort_for(space(), most_trials(space(), Effort())).pairs, Effort().pairs);
  EXPECT_GT(effort_for(space(), 100000).pairs, 40);
}

}  // namespace
}  // namespace weft::report::tuning
