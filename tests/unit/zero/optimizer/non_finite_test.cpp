// NaN and infinite gradients under every stage: refused or skipped, never silent.

#include <gtest/gtest.h>

#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "weft/core/log.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::zero {
namespace {

const ParamLayout small_model(DataType::f32, {{"embedding", 300}, {"layer.weight", 500}, {"layer.bias", 7}});
constexpr int bad_step = 1;

/// A training of three steps; in the second one, rank 1 has a NaN and an infinite value in layer.bias and a NaN in layer.weight.
class Training {
 public:
  Training(Communicator comm, ShardedOptions sharding, ShardedOptimizerOptions options)
      : comm_(comm), params_(comm, small_model, std::move(sharding)) {
    for (int i = 0; i < small_model.parameters(); ++i) {
      const std::vector<float> ones(static_cast<std::size_t>(small_model.count(ParamId{i})), 1.0F);
      params_.load(ParamId{i}, ConstView(std::span(ones)));
    }
    optimizer_.emplace(params_, AdamW{.learning_rate = 0.1}, std::move(options));
  }

  void backward(int step) {
    params_.begin_step();
    for (int i = small_model.parameters() - 1; i >= 0; --i) {
      const View gradient = params_.gradient(ParamId{i}, compute_);
      for (float& one : gradient.as<float>()) one = 0.5F;
      if (step == bad_step && comm_.rank() == 1 && i > 0) {
        gradient.as<float>()[3] = std::numeric_limits<float>::quiet_NaN();
        if (i == 2) gradient.as<float>()[5] = -std::numeric_limits<float>::infinity();
      }
      params_.mark_ready(ParamId{i}, compute_);
    }
  }
  StepResult update() { return optimizer_->step(compute_); }
  std::vector<float> parameters() {
    std::vector<float> all;
    for (int i = 0; i < small_model.parameters(); ++i) {
      const Buffer values = params_.whole(ParamId{i});
      all.insert(all.end(), values.as<float>().begin(), values.as<float>().end());
    }
    return all;
  }
  const ShardedOptimizer& optimizer() const { return *optimizer_; }

 private:
  Communicator comm_;
  Stream compute_;
  ShardedParams params_;
  std::optional<ShardedOptimizer> optimizer_;
};

/// What was logged while it lives.
class Logged {
 public:
  Logged() {
    log::set_sink([this](log::Level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  ~Logged() { log::set_sink(nullptr); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  int count(const std::string& part) const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(part) != std::string::npos; }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

constexpr const char* what = "rank 1 has 2 NaN and 1 infinite values in its gradients, first in layer.weight";

TEST(NonFiniteGradients, AreRefusedOnEveryRankByNameWhereStepsClip) {
  for (const int stage : {0, 1, 2, 3}) {
    run_as_threads(3, [&](Communicator comm) {
      Training job(comm, {.stage = stage}, {.clip_norm = 1.0});
      job.backward(0);
      EXPECT_FALSE(job.update().skipped);
      const std::vector<float> before = job.parameters();
      job.backward(bad_step);
      test::expect_error(ErrorKind::usage, {"step #2: ", what, "NonFinite::skip_step"},
                         [&] { job.update(); });
      EXPECT_EQ(job.parameters(), before) << "stage " << stage;
      EXPECT_EQ(job.optimizer().steps(), 1);
      job.backward(2);  // and may go on
      EXPECT_FALSE(job.update().skipped);
      EXPECT_NE(job.parameters(), before);
    });
  }
}

TEST(NonFiniteGradients, AreSkippedAndLoggedByName) {
  for (const int stage : {0, 1, 2, 3}) {
    const Logged logged;
    run_as_threads(2, [&](Communicator comm) {
      Training job(comm, {.stage = stage}, {.clip_norm = 1.0, .non_finite = NonFinite::skip_step});
      job.backward(0);
      job.update();
      const std::vector<float> before = job.parameters();
      job.backward(bad_step);
      EXPECT_TRUE(job.update().skipped);
      EXPECT_EQ(job.parameters(), before) << "stage " << stage;
      EXPECT_EQ(job.optimizer().steps(), 1);
    });
    EXPECT_EQ(logged.count(std::string("step 2 is skipped: ") + what), 1);
  }
}

TEST(NonFiniteGradients, AreSeenWithoutClippingWhereAsked) {
  run_as_threads(2, [&](Communicator comm) {
    Training job(comm, {.stage = 2}, {.non_finite = NonFinite::refuse});
    job.backward(bad_step);
    test::expect_error(ErrorKind::usage, {what}, [&] { job.update(); });
  });
}

TEST(NonFiniteGradients, AreNamedWhereTheLossScaleIsAtItsEnd) {
  const Logged logged;
  run_as_threads(2, [&](Communicator comm) {
    Training job(comm, {.stage = 1}, {.loss_scale = LossScalerOptions{.initial = 2, .hysteresis = 1}});
    job.backward(bad_step);
    EXPECT_TRUE(job.update().skipped);
    EXPECT_EQ(job.optimizer().loss_scale(), 1);
    job.backward(bad_step);
    test::expect_error(ErrorKind::usage, {"smallest loss scale", what}, [&] { job.update(); });
  });
  EXPECT_EQ(logged.count("the loss scale was 2"), 1);
}

TEST(NonFiniteGradients, CannotBeRefusedWhileALossScaleIsFound) {
  run_as_threads(2, [&](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"NonFinite::refuse with loss scaling"}, [&] {
      Training(comm, {}, {.loss_scale = LossScalerOptions{}, .non_finite = NonFinite::refuse});
    });
  });
}

TEST(ShardedOptimizers, WithOtherOptionsOnARankAreRefused) {
  run_as_threads(2, [](Communicator comm) {
    const double clip = comm.rank() == 0 ? 1.0 : 1.0 + 1e-15;
    test::expect_error(ErrorKind::mismatch,
                       {"ranks have different optimizers", "clips to 1 and", "clips to 1.000000000000001"},
                       [&] { Training(comm, {}, {.clip_norm = clip}); });
  });
}

}  // namespace
}  // namespace weft::zero
