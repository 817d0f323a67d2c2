// A training that is saved and goes on is bitwise the one that was not interrupted, also between two outer steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

#include "local_twin.hpp"
#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"
#include "weft/compression/hook_named.hpp"

namespace weft {
namespace {

using test::expect_error;
using test::LocalTraining;

/// A checkpoint in memory, which expects each element once.
class Kept {
 public:
  void add(const checkpoint::State& state) {
    const std::lock_guard lock(mutex_);
    if (values_.empty()) values_ = state.values;
    EXPECT_EQ(state.values, values_);
    for (const checkpoint::Piece& piece : state.pieces) {
      ASSERT_EQ(piece.dtype(), DataType::f32);
      std::int64_t all = 1;
      for (const std::int64_t one : piece.shape) all *= one;
      auto& [shape, values, there] = tensors_[piece.tensor];
      if (values.empty()) {
        shape = piece.shape;
        values.resize(static_cast<std::size_t>(all));
        there.resize(values.size());
      }
      EXPECT_EQ(shape, piece.shape);
      const auto first = static_cast<std::size_t>(piece.first),
                 count = static_cast<std::size_t>(piece.count());
      ASSERT_LE(first + count, values.size()) << piece.tensor;
      std::get<checkpoint::Computed>(piece.values).fill(0, View(std::span(values).subspan(first, count)));
      for (std::size_t i = first; i < first + count; ++i) {
        EXPECT_FALSE(there[i]) << piece.tensor << " is saved twice";
        there[i] = true;
      }
    }
  }
  const checkpoint::Values& values() const { return values_; }
  void read(std::span<const checkpoint::Wanted> wanted) const {
    for (const checkpoint::Wanted& one : wanted) {
      const Tensor& from = tensors_.at(one.tensor);
      ASSERT_EQ(one.shape, from.shape) << one.tensor;
      ASSERT_LE(one.first + one.count(), std::ssize(from.values));
      std::memcpy(std::get<View>(one.values).data(), from.values.data() + one.first,
                  static_cast<std::size_t>(one.count()) * sizeof(float));
    }
  }
  void expect_whole() const {
    for (const auto& [name, tensor] : tensors_) {
      for (const bool one : tensor.there) ASSERT_TRUE(one) << name << " is not whole";
    }
  }
  std::vector<float> tensor(const std::string& name) const { return tensors_.at(name).values; }

 private:
  struct Tensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
    std::vector<bool> there;
  };
  std::mutex mutex_;
  checkpoint::Values values_;
  std::map<std::string, Tensor> tensors_;
};

/// Saves after so many steps.
std::unique_ptr<Kept> saved(LocalTraining training, int steps) {
  auto kept = std::make_unique<Kept>();
  training.last_step = steps;
  training.at_end = [&](const LocalTraining::Rank& rank) { kept->add(rank.local.state(rank.compute)); };
  training.run();
  kept->expect_whole();
  return kept;
}

LocalTraining resumed(LocalTraining training, const Kept& from, int steps) {
  training.first_step = steps;
  training.at_start = [&from](const LocalTraining::Rank& rank) { rank.local.load_state(from, rank.compute); };
  return training;
}

TEST(LocalSaving, GoesOnBitwise) {
  for (const std::string& hook :
       test::few_under_tsan(std::vector<std::string>{"int8", "", "powersgd:2", "fp16"}, 1)) {
    for (const OuterOptimizer& outer : {OuterOptimizer(OuterNesterov{}), OuterOptimizer(OuterAverage{})}) {
      for (const int ranks : test::few_under_tsan(std::vector{2, 4, 1}, 1)) {
        const LocalTraining whole{.ranks = ranks, .outer = outer, .hook = hook, .queued = ranks == 2};
        const auto expected = whole.run();
        for (const int steps : {6, 7, 8}) {  // an outer step is every third
          const auto kept = saved(whole, steps);
          EXPECT_EQ(resumed(whole, *kept, steps).run(), expected)
              << hook << ", " << ranks << " ranks, after " << steps;
        }
      }
    }
  }
}

TEST(LocalSaving, OtherRanksBeginAtTheLastOuterStep) {
  for (const int steps : {6, 7}) {
    const auto kept = saved({.ranks = 4}, steps);
    LocalTraining later{.ranks = 2, .last_step = steps};
    const std::vector<float> outer = saved({.ranks = 4}, 6)->tensor("weight/outer");
    later = resumed(later, *kept, steps);
    later.at_end = [&](const LocalTraining::Rank& rank) {
      EXPECT_TRUE(std::equal(outer.begin(), outer.end(), rank.values.begin()));
      EXPECT_EQ(rank.local.inner_steps(), 0);
      EXPECT_EQ(rank.local.outer_step(rank.compute), OuterStep::none);
    };
    const auto values = later.run();
    EXPECT_EQ(values[0], values[1]);
  }
}

TEST(LocalSaving, WhatDoesNotFitIsRefused) {
  const auto kept = saved({.ranks = 2}, 7);
  LocalTraining other{.ranks = 2, .outer = OuterAverage{}, .last_step = 0};
  other.at_start = [&](const LocalTraining::Rank& rank) {
    expect_error(ErrorKind::usage, {"the outer optimizer nesterov", "average"},
                 [&] { rank.local.load_state(*kept, rank.compute); });
    expect_error(ErrorKind::usage, {"without LocalSteps whose first parameter is weight"},
                 [&] { rank.local.load_state(Kept(), rank.compute); });
    const Kept nothing;
    expect_error(ErrorKind::mismatch,
                 {"rank 0 loads outer step 2 and 1 inner steps", "rank 1 loads no state"},
                 [&] { rank.local.load_state(rank.comm.rank() == 1 ? nothing : *kept, rank.compute); });
  };
  other.run();
}

// Two of them, of the halves of a model, save into one checkpoint, each with what its hook keeps.
TEST(LocalSaving, OneCheckpointHasSeveral) {
  const ParamLayout first(DataType::f32, {{"first", 1000}}), second(DataType::f32, {{"second", 1000}});
  const auto train = [&](int from, int to, const Kept* load, Kept* save) {
    std::vector<float> result;
    run_as_threads(2, [&](const Communicator& comm) {
      std::vector<float> a(1000, 1), b(1000, 2);
      const auto options = [](std::int64_t every) {
        return LocalStepsOptions{.every = every, .hook = hook_named("int8", 0)};
      };
      LocalSteps one(comm, first, {View(std::span(a))}, options(1));
      LocalSteps other(comm, second, {View(std::span(b))}, options(2));
      const Stream compute;
      if (load != nullptr) {
        one.load_state(*load, compute);
        other.load_state(*load, compute);
      }
      for (int step = from; step < to; ++step) {
        for (std::size_t i = 0; i < 1000; ++i) {
          a[i] -= 1e-3F * static_cast<float>((i * 7 + static_cast<std::size_t>(step + comm.rank())) % 13);
          b[i] -= 1e-3F * static_cast<float>((i * 5 + static_cast<std::size_t>(step + comm.rank())) % 11);
        }
        one.step(compute);
        other.step(compute);
      }
      if (save != nullptr) {
        checkpoint::State both = one.state(compute);
        checkpoint::State more = other.state(compute);
        both.values.merge(more.values);
        EXPECT_TRUE(more.values.empty()) << more.values.begin()->first << " is in both";
        std::ranges::move(more.pieces, std::back_inserter(both.pieces));
        save->add(both);
      }
      if (comm.rank() == 1) {
        result = a;
        result.insert(result.end(), b.begin(), b.end());
      }
    });
    return result;
  };
  Kept kept;
  train(0, 5, nullptr, &kept);
  kept.expect_whole();
  EXPECT_EQ(train(5, 9, &kept, nullptr), train(0, 9, nullptr, nullptr));
}

/// 6 inner steps, 2 fragments, taken in after 2: after 6 and 7 steps one is under way.
LocalTraining streaming(int ranks) {
  return {.ranks = ranks, .every = 6, .fragments = 2, .delay = 2, .mixing = 0.5, .last_step = 16};
}

// What is under way is saved with the rest, and taken in when it would have been.
TEST(LocalSaving, FragmentsUnderWayGoOnBitwise) {
  for (const std::string& hook :
       test::few_under_tsan(std::vector<std::string>{"int8", "", "powersgd:2", "fp16"}, 1)) {
    for (const int ranks : test::few_under_tsan(std::vector{2, 4, 1}, 1)) {
      LocalTraining whole = streaming(ranks);
      whole.hook = hook;
      whole.queued = ranks == 2;
      if (ranks == 4) whole.outer = OuterAverage{};
      if (ranks == 4) whole.delay = 4;  // two are under way
      const auto expected = whole.run();
      for (const int steps : {2, 3, 4, 5, 6, 7, 8, 9}) {
        const auto kept = saved(whole, steps);
        EXPECT_EQ(resumed(whole, *kept, steps).run(), expected)
            << hook << ", " << ranks << " ranks, after " << steps;
      }
    }
  }
}

// A run that saves is the run that does not.
TEST(LocalSaving, SavingChangesNoBitOfWhatIsUnderWay) {
  LocalTraining one = streaming(2);
  const auto expected = one.run();
  one.after_step = [](const LocalTraining::Rank& rank, int, OuterStep) {
    (void)rank.local.state(rank.compute);
  };
  EXPECT_EQ(one.run(), expected);
}

TEST(LocalSaving, OtherRanksTakeInWhatIsUnderWay) {
  const auto kept = saved(streaming(4), 6);  // the second fragment has just been sent
  const std::vector<float> weight = kept->tensor("weight/outer"), bias = kept->tensor("bias/outer"),
                           mean = kept->tensor("bias/outer_mean");
  for (const int ranks : {1, 2}) {
    LocalTraining later = streaming(ranks);
    later.last_step = 6;
    later = resumed(later, *kept, 6);
    later.at_end = [&](const LocalTraining::Rank& rank) {
      EXPECT_TRUE(std::equal(weight.begin(), weight.end(), rank.values.begin()));
      EXPECT_TRUE(std::equal(bias.begin(), bias.end(), rank.values.begin() + 4800));
      EXPECT_EQ(rank.local.outer_step(rank.compute), OuterStep::taken);
      for (std::size_t i = 0; i < bias.size(); ++i) {
        ASSERT_EQ(rank.values[4800 + i] == bias[i], mean[i] == 0) << i;
      }
    };
    const auto values = later.run();
    for (const auto& one : values) EXPECT_EQ(one, values[0]);
  }
}

TEST(LocalSaving, ABadFragmentUnderWayIsStillBad) {
  LocalTraining one = streaming(2);
  one.after_inner = [](const LocalTraining::Rank& rank, int step) {
    if (rank.comm.rank() == 1 && step == 5) rank.values[4810] = std::numeric_limits<float>::quiet_NaN();
  };
  const auto kept = saved(one, 7);
  LocalTraining later = resumed(streaming(2), *kept, 7);
  later.last_step = 7;
  later.at_end = [](const LocalTraining::Rank& rank) {
    expect_error(ErrorKind::usage, {"fragment 1: rank 1 has 1 NaN", "first in bias"},
                 [&] { rank.local.step(rank.compute); });
  };
  later.run();
}

// What was under way here is dropped, and what the checkpoint has under way takes its place.
TEST(LocalSaving, LoadsWithAFragmentUnderWay) {
  const LocalTraining whole = streaming(2);
  const auto expected = whole.run();
  const auto kept = saved(whole, 7);
  LocalTraining later = whole;
  later.first_step = 4;
  later.after_step = [&](const LocalTraining::Rank& rank, int step, OuterStep) {
    if (step == 6) rank.local.load_state(*kept, rank.compute);  // sent with step 6, of another training
  };
  EXPECT_EQ(later.run(), expected);
}

TEST(LocalSaving, OtherFragmentsAreRefused) {
  const auto kept = saved(streaming(2), 7);
  LocalTraining other = streaming(2);
  other.fragments = 3;
  other.last_step = 0;
  other.at_start = [&](const LocalTraining::Rank& rank) {
    expect_error(ErrorKind::usage, {"in the fragments 0 1 1, and here they are in 0 1 2"},
                 [&] { rank.local.load_state(*kept, rank.compute); });
  };
  other.run();
}

// With another H the order begins anew: fragments are sent after 2 and 4 steps.
TEST(LocalSaving, EveryMayChangeWithFragments) {
  const auto kept = saved(streaming(2), 5);  // nothing is under way
  LocalTraining after = streaming(2);
  after.every = 4;
  after.delay = 1;
  after.last_step = 12;
  after = resumed(after, *kept, 5);
  std::vector<int> taken;
  after.after_step = [&](const LocalTraining::Rank& rank, int step, OuterStep one) {
    if (rank.comm.rank() == 0 && one == OuterStep::taken) taken.push_back(step - 4);
  };
  after.run();
  EXPECT_EQ(taken, (std::vector{3, 5, 7}));
}

// A trainer that changes H goes on: an outer step is due after the new number of inner ones.
TEST(LocalSaving, EveryMayChange) {
  LocalTraining before{.ranks = 2, .every = 5};
  const auto kept = saved(before, 3);
  LocalTraining after{.ranks = 2, .every = 2, .last_step = 6};
  after = resumed(after, *kept, 3);
  std::vector<OuterStep> did(6);
  after.after_step = [&](const LocalTraining::Rank& rank, int step, OuterStep one) {
    if (rank.comm.rank() == 0) did[static_cast<std::size_t>(step)] = one;
  };
  after.run();
  EXPECT_EQ(did[3], OuterStep::taken);  // the fourth since the last outer step
  EXPECT_EQ(did[4], OuterStep::none);
  EXPECT_EQ(did[5], OuterStep::taken);
}

}  // namespace
}  // namespace weft
