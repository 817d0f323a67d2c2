#include "weft/compression/power_sgd.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"
#include "unit/compression/training.hpp"

namespace weft {
namespace {

using test::difference;
using test::Floats;
using test::relative_error;
using test::Training;

// A matrix, one with odd sizes, one of more dimensions, a vector, and a matrix too small to be compressed.
const ParamLayout layout(DataType::f32, {{"tall", 96 * 40, nullptr, {96, 40}},
                                         {"bias", 40},
                                         {"odd", 37 * 301, nullptr, {37, 301}},
                                         {"conv", 24 * 8 * 9, nullptr, {24, 8, 9}},
                                         {"small", 3 * 4, nullptr, {3, 4}}});
constexpr int tall = 0;
constexpr int bias = 1;
constexpr int odd = 2;
constexpr int small = 4;

auto with(PowerSgdOptions options) {
  return [options](int) { return power_sgd(options); };
}

/// The algorithm in f64 on one matrix, from given bases, with the residual of every rank in f64.
class Reference {
 public:
  Reference(std::size_t rows, std::size_t columns, const Floats& right, int rank, int ranks)
      : rows_(rows),
        columns_(columns),
        rank_(static_cast<std::size_t>(rank)),
        right_(right.begin(), right.end()),
        residuals_(static_cast<std::size_t>(ranks), std::vector<double>(rows * columns)) {}

  /// @param gradients of all ranks; @returns the mean that all get
  std::vector<double> two_sided(std::vector<Floats> gradients) {
    const auto sums = with_residuals(gradients);
    left_ = product_left(mean(sums));
    orthonormalize(left_, rows_);
    return take(sums, right_ = product_right(mean(sums)), true);
  }
  std::vector<double> alternating(std::vector<Floats> gradients, bool makes_left) {
    const auto sums = with_residuals(gradients);
    if (makes_left) return take(sums, left_ = product_left(mean(sums)), false);
    return take(sums, right_ = product_right(mean(sums)), true);
  }

 private:
  using Matrix = std::vector<double>;

  std::vector<Matrix> with_residuals(const std::vector<Floats>& gradients) const {
    std::vector<Matrix> sums = residuals_;
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
      for (std::size_t i = 0; i < sums[rank].size(); ++i)
        sums[rank][i] += static_cast<double>(gradients[rank][i]);
    }
    return sums;
  }
  static Matrix mean(const std::vector<Matrix>& all) {
    Matrix result(all.front().size());
    for (const Matrix& one : all) {
      for (std::size_t i = 0; i < one.size(); ++i) result[i] += one[i] / static_cast<double>(all.size());
    }
    return result;
  }
  Matrix product_left(const Matrix& m) const {
    Matrix left(rank_ * rows_);
    for (std::size_t k = 0; k < rank_; ++k) {
      for (std::size_t i = 0; i < rows_; ++i) {
        for (std::size_t j = 0; j < columns_; ++j)
          left[k * rows_ + i] += m[i * columns_ + j] * right_[k * columns_ + j];
      }
    }
    return left;
  }
  Matrix product_right(const Matrix& m) const {
    Matrix right(rank_ * columns_);
    for (std::size_t k = 0; k < rank_; ++k) {
      for (std::size_t i = 0; i < rows_; ++i) {
        for (std::size_t j = 0; j < columns_; ++j)
          right[k * columns_ + j] += m[i * columns_ + j] * left_[k * rows_ + i];
      }
    }
    return right;
  }
  void orthonormalize(Matrix& factor, std::size_t length) const {
    for (std::size_t k = 0; k < rank_; ++k) {
      double* vector = &factor[k * length];
      for (std::size_t l = 0; l < k; ++l) {
        double dot = 0;
        for (std::size_t i = 0; i < length; ++i) dot += vector[i] * factor[l * length + i];
        for (std::size_t i = 0; i < length; ++i) vector[i] -= dot * factor[l * length + i];
      }
      double norm = 0;
      for (std::size_t i = 0; i < length; ++i) norm += vector[i] * vector[i];
      for (std::size_t i = 0; i < length; ++i) vector[i] /= std::sqrt(norm);
    }
  }
  /// `made` is the factor that was summed. The other one is orthonormal, and also a factor of a rank's own
  /// product.
  Matrix take(const std::vector<Matrix>& sums, const Matrix&, bool made_right) {
    const Matrix result = expand();
    const Matrix left = left_;
    const Matrix right = right_;
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
      (made_right ? right_ : left_) = made_right ? product_right(sums[rank]) : product_left(sums[rank]);
      const Matrix own = expand();
      for (std::size_t i = 0; i < own.size(); ++i) residuals_[rank][i] = sums[rank][i] - own[i];
      left_ = left;
      right_ = right;
    }
    orthonormalize(made_right ? right_ : left_, made_right ? columns_ : rows_);
    return result;
  }
  Matrix expand() const {
    Matrix result(rows_ * columns_);
    for (std::size_t i = 0; i < rows_; ++i) {
      for (std::size_t j = 0; j < columns_; ++j) {
        for (std::size_t k = 0; k < rank_; ++k)
          result[i * columns_ + j] += left_[k * rows_ + i] * right_[k * columns_ + j];
      }
    }
    return result;
  }

  std::size_t rows_, columns_, rank_;
  Matrix left_, right_;
  std::vector<Matrix> residuals_;
};

/// The bases that training begins with.
PowerSgdState first_state(const PowerSgdOptions& options) {
  PowerSgdState state;
  run_as_threads(1, [&](Communicator comm) {
    const auto hook = power_sgd(options);
    const GradientReducer reducer(comm, layout, {.hook = hook});
    state = hook->state();
  });
  return state;
}

class InEveryForm : public testing::TestWithParam<LowRankForm> {};
INSTANTIATE_TEST_SUITE_P(Forms, InEveryForm,
                         testing::Values(LowRankForm::two_sided, LowRankForm::alternating));

TEST_P(InEveryForm, MeansAreThoseOfTheAlgorithmInDoublePrecision) {
  const PowerSgdOptions options{.rank = 3, .start_step = 0, .form = GetParam()};
  const Training training{.layout = layout, .ranks = 3, .steps = 6};
  const auto means = training.run(with(options));
  const PowerSgdState begin = first_state(options);
  ASSERT_EQ(begin.tensors.size(), 3U);
  Reference reference(37, 301, begin.tensors[1].basis, 3, 3);
  for (int step = 0; step < training.steps; ++step) {
    std::vector<Floats> gradients;
    for (int rank = 0; rank < 3; ++rank) gradients.push_back(training.gradient(layout, rank, step, odd));
    const auto expected = GetParam() == LowRankForm::two_sided || step == 0
                              ? reference.two_sided(gradients)
                              : reference.alternating(gradients, step % 2 == 1);
    EXPECT_LE(relative_error(training.part(means[static_cast<std::size_t>(step)], odd), expected), 3e-4)
        << step;
    for (const int whole : {bias, small})
      EXPECT_LE(relative_error(training.part(means[static_cast<std::size_t>(step)], whole),
                               training.mean(step, whole)),
                1e-6);
  }
}

TEST_P(InEveryForm, OfTheTrueRankMeansAreExact) {
  // All ranks' gradients have the same two directions of rows and of columns, each its own share of them.
  Training training{.layout = layout, .ranks = 4, .steps = 8};
  training.gradient = [](const ParamLayout& of, int rank, int step, int parameter) {
    const std::int64_t rows = of.shape(ParamId{parameter}).front();
    const std::int64_t columns = of.count(ParamId{parameter}) / rows;
    const auto share = static_cast<float>(rank + step);
    return test::low_rank(rows, columns, test::normal(2 * rows, 0, 0, parameter),
                          test::normal(2 * columns, 1, 0, parameter), {1 + 0.1F * share, 2 - 0.1F * share});
  };
  for (const int rank : {2, 3}) {
    const auto means = training.run(with({.rank = rank, .start_step = 0, .form = GetParam()}));
    for (int step = GetParam() == LowRankForm::two_sided ? 1 : 2; step < training.steps; ++step) {
      for (const int parameter : {tall, odd})
        EXPECT_LE(relative_error(training.part(means[static_cast<std::size_t>(step)], parameter),
                                 training.mean(step, parameter)),
                  1e-6)
            << "rank " << rank << ", step " << step << ", " << layout.name(ParamId{parameter});
    }
  }
}

TEST_P(InEveryForm, WhatWasNotSentIsInTheResiduals) {
  for (const KeptAs kind : {KeptAs::f32, KeptAs::sixteen_bits}) {
    Training training{.layout = layout, .ranks = 4, .steps = 20};
    std::vector<double> residual(static_cast<std::size_t>(layout.count(ParamId{odd})));
    std::mutex mutex;
    training.after = [&](int, int step, CommHook& hook, Communicator&) {
      if (step + 1 < training.steps) return;
      const PowerSgdState state = static_cast<PowerSgd&>(hook).state();
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < residual.size(); ++i)
        residual[i] += static_cast<double>(state.tensors[1].residual[i]) / training.ranks;
    };
    const auto means = training.run(with({.rank = 2, .start_step = 3, .residual = kind, .form = GetParam()}));
    std::vector<double> sent = residual;
    std::vector<double> brought(residual.size());
    for (int step = 0; step < training.steps; ++step) {
      const Floats mean = training.part(means[static_cast<std::size_t>(step)], odd);
      const std::vector<double> gradient = training.mean(step, odd);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        sent[i] += static_cast<double>(mean[i]);
        brought[i] += gradient[i];
      }
    }
    EXPECT_LE(relative_error(sent, brought), kind == KeptAs::f32 ? 3e-6 : 3e-4);
  }
}

TEST_P(InEveryForm, EqualGradientsOnFourRanksEqualOne) {
  Training four{.layout = layout, .ranks = 4, .steps = 5};
  four.gradient = [](const ParamLayout& of, int, int step, int parameter) {
    return test::normal(of.count(ParamId{parameter}), 0, step, parameter);
  };
  Training one = four;
  one.ranks = 1;
  const PowerSgdOptions options{.rank = 2, .start_step = 1, .form = GetParam()};
  EXPECT_EQ(difference(four.run(with(options)), one.run(with(options))), "");
}

TEST_P(InEveryForm, PermutingRanksChangesOnlyRounding) {
  // Two main directions and noise: without a main direction, rounding decides which is found.
  Training training{.layout = layout, .ranks = 4, .steps = 10};
  const auto gradient = [](const ParamLayout& of, int rank, int step, int parameter) {
    const std::int64_t rows = of.shape(ParamId{parameter}).front();
    const std::int64_t columns = of.count(ParamId{parameter}) / rows;
    Floats values = test::low_rank(rows, columns, test::normal(2 * rows, 0, 0, parameter),
                                   test::normal(2 * columns, 1, 0, parameter), {3, 2});
    const Floats noise = test::normal(rows * columns, rank, step, parameter);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.1F * noise[i];
    return values;
  };
  training.gradient = gradient;
  const PowerSgdOptions options{.rank = 2, .start_step = 0, .form = GetParam()};
  const auto means = training.run(with(options));
  training.gradient = [&](const ParamLayout& of, int rank, int step, int parameter) {
    return gradient(of, (rank + 3) % 4, step, parameter);
  };
  const auto permuted = training.run(with(options));
  for (std::size_t step = 0; step < means.size(); ++step)
    EXPECT_LE(relative_error(permuted[step], means[step]), 1e-5) << step;
}

TEST_P(InEveryForm, ShardedMeansHaveTheSameBitsWhateverTheBuckets) {
  for (const int ranks : test::few_under_tsan<int>({3, 2}, 1)) {
    Training training{
        .layout = layout, .ranks = ranks, .steps = 6, .options = {.buckets = BucketBytes{1 << 20}}};
    const PowerSgdOptions options{.rank = 2, .start_step = 2, .form = GetParam()};
    const auto everywhere = training.run(with(options));
    for (const std::size_t bytes : {1U, 6000U, 40000U}) {
      for (const bool queued : {false, true}) {
        training.options = {.buckets = BucketBytes{bytes}};
        training.queued = queued;
        EXPECT_EQ(difference(training.run(with(options)), everywhere), "") << ranks << " ranks, " << bytes;
        training.options.means = Means::sharded;
        EXPECT_EQ(difference(training.run(with(options)), everywhere), "")
            << ranks << " ranks, " << bytes << ", sharded";
      }
    }
  }
}

TEST_P(InEveryForm, TravelsAsManyBytesAsTheFactorsHave) {
  constexpr int rank = 2;
  Training training{.layout = layout, .ranks = 4, .steps = 4};
  std::vector<std::uint64_t> sent;
  training.after = [&](int at, int, CommHook&, Communicator& comm) {
    if (at == 0) sent.push_back(comm.wire_bytes());
  };
  training.run(with({.rank = rank, .start_step = 0, .form = GetParam()}));
  const auto expected = [&](bool left, bool right) {
    std::int64_t elements = layout.count(ParamId{bias}) + layout.count(ParamId{small});
    for (const auto& [rows, columns] : {std::pair(96, 40), std::pair(37, 301), std::pair(24, 72)})
      elements += rank * ((left ? rows : 0) + (right ? columns : 0));
    return 2.0 * 3 / 4 * static_cast<double>(elements) * sizeof(float);
  };
  for (std::size_t step = 1; step < sent.size(); ++step) {
    const bool both = GetParam() == LowRankForm::two_sided;
    const double bytes = expected(both || step % 2 == 1, both || step % 2 == 0);
    EXPECT_NEAR(static_cast<double>(sent[step] - sent[step - 1]) / bytes, 1, 0.01) << step;
  }
}

// NaN in each place where it can enter, in steps before and after compression begins.
TEST_P(InEveryForm, AStepWithNaNLeavesNoTrace) {
  for (const int ranks : test::few_under_tsan<int>({3, 1}, 1)) {
    for (const auto& [bad_step, bad_parameter, bad] :
         {std::tuple(1, +bias, NAN), std::tuple(3, +odd, NAN), std::tuple(4, +tall, INFINITY),
          std::tuple(5, +bias, -INFINITY), std::tuple(6, +small, NAN)}) {
      for (const Means means : {Means::everywhere, Means::sharded}) {
        Training skipping{
            .layout = layout, .ranks = ranks, .steps = 10, .options = {.buckets = BucketBytes{6000}}};
        skipping.options.means = means;
        const auto hook = with({.rank = 2, .start_step = 2, .form = GetParam()});
        const auto without = skipping.run(hook);
        Training training = skipping;
        training.steps += 1;
        training.gradient = [&, bad_step = bad_step, bad_parameter = bad_parameter, bad = bad](
                                const ParamLayout& of, int rank, int step, int parameter) {
          Floats values = skipping.gradient(of, rank, step > bad_step ? step - 1 : step, parameter);
          if (step == bad_step && rank == ranks - 1 && parameter == bad_parameter)
            values[values.size() / 2] = bad;
          return values;
        };
        auto with_bad = training.run(hook);
        const Floats hit = training.part(with_bad[static_cast<std::size_t>(bad_step)], bad_parameter);
        EXPECT_TRUE(std::ranges::any_of(hit, [](float value) { return !std::isfinite(value); }));
        with_bad.erase(with_bad.begin() + bad_step);
        EXPECT_EQ(difference(with_bad, without), "")
            << "step " << bad_step << ", " << layout.name(ParamId{bad_parameter});
      }
    }
  }
}

// The gradients are finite on every rank; only their sums are not. Before compression begins, and after.
TEST_P(InEveryForm, AStepWhoseSumsOverflowLeavesNoTrace) {
  for (const int bad_step : {1, 6}) {
    for (const Means means : {Means::everywhere, Means::sharded}) {
      Training skipping{.layout = layout, .ranks = 3, .steps = 8, .options = {.buckets = BucketBytes{6000}}};
      skipping.options.means = means;
      const auto hook = with({.rank = 2, .start_step = 3, .form = GetParam()});
      const auto without = skipping.run(hook);
      Training training = skipping;
      training.steps += 1;
      training.gradient = [&](const ParamLayout& of, int rank, int step, int parameter) {
        Floats values = skipping.gradient(of, rank, step > bad_step ? step - 1 : step, parameter);
        if (step == bad_step && parameter == small) values[5] = std::numeric_limits<float>::max();
        return values;
      };
      auto with_bad = training.run(hook);
      with_bad.erase(with_bad.begin() + bad_step);
      EXPECT_EQ(difference(with_bad, without), "") << "step " << bad_step;
    }
  }
}

// The means are finite, so the step counts. What its residuals hold must not make later sums overflow.
TEST_P(InEveryForm, AStepOfHugeGradientsDoesNotSpoilLaterOnes) {
  for (const KeptAs kind : {KeptAs::f32, KeptAs::sixteen_bits}) {
    for (const float huge : {1e30F, 1e36F, 1e38F, 3e38F}) {
      Training training{.layout = layout, .ranks = 2, .steps = 14};
      training.gradient = [huge](const ParamLayout& of, int rank, int step, int parameter) {
        Floats values = test::normal(of.count(ParamId{parameter}), rank, step, parameter);
        if (step % 5 != 3 || parameter == bias || parameter == small) return values;
        // Opposite on the other rank: they cancel in the means, and not in what each of them keeps.
        const Floats signs = test::normal(of.count(ParamId{parameter}), 0, step, parameter);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = std::copysign(huge, rank == 0 ? signs[i] : -signs[i]);
        return values;
      };
      const auto means =
          training.run(with({.rank = 2, .start_step = 0, .residual = kind, .form = GetParam()}));
      for (std::size_t step = 0; step < means.size(); ++step) {
        if (step % 5 == 3) continue;
        EXPECT_TRUE(std::ranges::all_of(means[step], [](float value) { return std::isfinite(value); }))
            << step << " after " << huge;
      }
    }
  }
}

TEST_P(InEveryForm, ADeadLayerIsZeroAndComesAliveAgain) {
  Training training{.layout = layout, .ranks = 2, .steps = 12};
  training.gradient = [](const ParamLayout& of, int rank, int step, int parameter) {
    Floats values = test::normal(of.count(ParamId{parameter}), rank, 0, parameter);
    if (parameter == odd && (step < 4 || step == 8)) std::ranges::fill(values, 0.0F);
    return values;
  };
  const auto means = training.run(with({.rank = 2, .start_step = 0, .form = GetParam()}));
  for (std::size_t step = 0; step < means.size(); ++step) {
    double square = 0;
    for (const float value : training.part(means[step], odd)) {
      ASSERT_TRUE(std::isfinite(value));
      square += static_cast<double>(value) * static_cast<double>(value);
    }
    EXPECT_EQ(square > 0, step >= 4) << step;
  }
}

TEST_P(InEveryForm, TrainingGoesOnFromAState) {
  const PowerSgdOptions options{.rank = 2, .start_step = 1, .form = GetParam()};
  Training training{.layout = layout, .ranks = 3, .steps = 9};
  std::vector<PowerSgdState> states(3);
  training.after = [&](int rank, int step, CommHook& hook, Communicator&) {
    if (step == 4) states[static_cast<std::size_t>(rank)] = static_cast<PowerSgd&>(hook).state();
  };
  auto whole = training.run(with(options));
  Training rest = training;
  rest.steps = 4;
  rest.options.buckets = BucketBytes{5000};  // and in other buckets
  rest.gradient = [&](const ParamLayout& of, int rank, int step, int parameter) {
    return training.gradient(of, rank, step + 5, parameter);
  };
  rest.after = nullptr;
  // The hook gets its state between the making of the reducer and the first step: by a wrapper's planned().
  struct Loading final : CommHook {
    Loading(std::shared_ptr<PowerSgd> hook, const PowerSgdState& state)
        : inner(std::move(hook)), from(state) {}
    std::string name() const override { return inner->name(); }
    void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override {
      inner->planned(plan, gradients, comm);
      inner->load_state(from);
    }
    void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
                const Stream& wire) override {
      inner->reduce(bucket, gradient, comm, compute, wire);
    }
    std::shared_ptr<PowerSgd> inner;
    const PowerSgdState& from;
  };
  const auto resumed = rest.run([&](int rank) {
    return std::make_shared<Loading>(power_sgd(options), states[static_cast<std::size_t>(rank)]);
  });
  whole.erase(whole.begin(), whole.begin() + 5);
  EXPECT_EQ(difference(resumed, whole), "");
}

TEST(PowerSgd, WithoutWarmStartEveryStepIsNewAndStillAddsUp) {
  Training training{.layout = layout, .ranks = 2, .steps = 3};
  training.gradient = [](const ParamLayout& of, int rank, int, int parameter) {
    return test::normal(of.count(ParamId{parameter}), rank, 0, parameter);
  };
  const PowerSgdOptions options{.rank = 1, .start_step = 0, .warm_start = false, .residual = KeptAs::nothing};
  const auto means = training.run(with(options));
  EXPECT_NE(training.part(means[0], odd), training.part(means[1], odd)) << "other bases of the same gradient";
  EXPECT_EQ(difference(training.run(with(options)), means), "") << "and the same ones in every run";
}

TEST(PowerSgd, RefusesWhatMakesNoSense) {
  using test::expect_error;
  expect_error(ErrorKind::usage, {"rank 0", "1 or more"}, [] { power_sgd({.rank = 0}); });
  expect_error(ErrorKind::usage, {"min_rate", "-1"}, [] { power_sgd({.min_rate = -1}); });
  expect_error(ErrorKind::usage, {"min_rate", "nan"}, [] { power_sgd({.min_rate = NAN}); });
  expect_error(ErrorKind::usage, {"step -3"}, [] { power_sgd({.start_step = -3}); });
  expect_error(ErrorKind::usage, {"no reducer"}, [] { power_sgd()->state(); });
  run_as_threads(1, [](Communicator comm) {
    expect_error(ErrorKind::usage, {"rank 41", "tall", "96 x 40", "smaller rank"},
                 [&] { GradientReducer(comm, layout, {.hook = power_sgd({.rank = 41})}); });
    expect_error(ErrorKind::usage, {"f16", "cast_hook"}, [&] {
      GradientReducer(comm, ParamLayout(DataType::f16, {{"a", 10000, nullptr, {100, 100}}}),
                      {.hook = power_sgd()});
    });
    const auto hook = power_sgd();
    const GradientReducer reducer(comm, layout, {.hook = hook});
    expect_error(ErrorKind::usage, {"two reducers"}, [&] { GradientReducer(comm, layout, {.hook = hook}); });
    EXPECT_EQ(hook->factor_elements(ParamId{tall}), 136);
    EXPECT_EQ(hook->factor_elements(ParamId{bias}), 0);
  });
}

TEST(PowerSgd, WhatIsNamedTravelsWhole) {
  const PowerSgdOptions options{.rank = 2, .start_step = 0, .whole = {"odd", "bias"}};
  const Training training{.layout = layout, .ranks = 3, .steps = 3};
  const auto means = training.run(with(options));
  const auto compressed = training.run(with({.rank = 2, .start_step = 0}));
  for (int step = 0; step < training.steps; ++step) {
    const auto& mean = means[static_cast<std::size_t>(step)];
    EXPECT_LE(relative_error(training.part(mean, odd), training.mean(step, odd)), 1e-6) << step;
    EXPECT_EQ(training.part(mean, tall), training.part(compressed[static_cast<std::size_t>(step)], tall));
  }
  EXPECT_NE(power_sgd(options)->name().find("whole odd bias"), std::string::npos) << "ranks compare names";
}

TEST(PowerSgd, RefusesToLeaveWholeWhatIsNotThereOrEverything) {
  run_as_threads(1, [](Communicator comm) {
    const auto reduced = [&](std::vector<std::string> whole) {
      GradientReducer(comm, layout, {.hook = power_sgd({.rank = 2, .whole = std::move(whole)})});
    };
    test::expect_error(ErrorKind::usage, {"'tail'", "did you mean tall?"}, [&] { reduced({"tail"}); });
    test::expect_error(ErrorKind::usage, {"every matrix", "all_reduce_hook"}, [&] {
      reduced({"tall", "odd", "conv"});
    });
  });
}

TEST(PowerSgd, RefusesAStateOfAnotherModelAndSaysWhatDiffers) {
  using test::expect_error;
  const auto refused = [](std::initializer_list<std::string> parts, auto change) {
    run_as_threads(1, [&](Communicator comm) {
      const auto hook = power_sgd({.rank = 2});
      const GradientReducer reducer(comm, layout, {.hook = hook});
      PowerSgdState state = hook->state();
      change(state);
      expect_error(ErrorKind::usage, parts, [&] { hook->load_state(state); });
    });
  };
  refused({"odd", "37 x 300 there", "37 x 301 here"}, [](PowerSgdState& s) { s.tensors[1].shape[1] = 300; });
  refused({"odd", "rank 4 there and 2 here"}, [](PowerSgdState& s) { s.tensors[1].rank = 4; });
  refused({"conv", "here and not there"}, [](PowerSgdState& s) { s.tensors.pop_back(); });
  refused({"extra", "there and not here"}, [](PowerSgdState& s) {
    s.tensors.push_back(s.tensors[0]);
    s.tensors.back().name = "extra";
  });
  refused({"tall", "NaN"}, [](PowerSgdState& s) { s.tensors[0].residual[5] = NAN; });
  refused({"tall", "basis of 3"}, [](PowerSgdState& s) { s.tensors[0].basis.resize(3); });
}

TEST(PowerSgd, AStateThatOneRankRefusesLeavesAllAsTheyWere) {
  Training training{.layout = layout, .ranks = 3, .steps = 6};
  const auto hook = with({.rank = 2, .start_step = 1});
  const auto without = training.run(hook);
  training.after = [](int rank, int step, CommHook& of_rank, Communicator&) {
    if (step != 2) return;
    PowerSgdState state = static_cast<PowerSgd&>(of_rank).state();
    const auto load = [&] { static_cast<PowerSgd&>(of_rank).load_state(state); };
    if (rank == 1) {
      state.tensors[1].residual[7] = NAN;
      test::expect_error(ErrorKind::usage, {"odd", "NaN"}, load);
    } else {
      test::expect_error(ErrorKind::usage, {"rank 1 cannot load the PowerSGD state: ", "odd", "NaN"}, load);
    }
  };
  EXPECT_EQ(difference(training.run(hook), without), "");
}

TEST(PowerSgd, RefusesBasesThatItsFormCannotStartFrom) {
  Training training{.layout = layout, .ranks = 1, .steps = 3};
  PowerSgdState left;
  training.after = [&](int, int, CommHook& hook, Communicator&) {
    left = static_cast<PowerSgd&>(hook).state();
  };
  training.run(with({.rank = 2, .start_step = 1, .form = LowRankForm::alternating}));
  ASSERT_TRUE(left.left_bases);
  run_as_threads(1, [&](Communicator comm) {
    for (const PowerSgdOptions& options :
         {PowerSgdOptions{.rank = 2, .start_step = 1},
          PowerSgdOptions{.rank = 2, .start_step = 3, .form = LowRankForm::alternating}}) {
      const auto hook = power_sgd(options);
      const GradientReducer reducer(comm, layout, {.hook = hook});
      test::expect_error(ErrorKind::usage, {"left bases", "step 3", "start_step"},
                         [&] { hook->load_state(left); });
    }
  });
}

TEST(PowerSgd, RefusesStatesOfDifferentRuns) {
  run_as_threads(2, [](Communicator comm) {
    const auto hook = power_sgd({.rank = 2});
    const GradientReducer reducer(comm, layout, {.hook = hook});
    PowerSgdState state = hook->state();
    if (comm.rank() == 1) state.tensors[0].basis[0] += 1;
    test::expect_error(ErrorKind::mismatch, {"ranks 0 and 1", "different runs"},
                       [&] { hook->load_state(state); });
  });
}

}  // namespace
}  // namespace weft
