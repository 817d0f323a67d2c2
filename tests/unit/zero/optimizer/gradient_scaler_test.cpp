#include "weft/zero/gradient_scaler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/expect_error.hpp"
#include "support/fake_update.hpp"
#include "support/ranks_with_fakes.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/log.hpp"

namespace weft::zero {
namespace {

const ParamLayout tensors(DataType::f32, {{"weight", 700}, {"bias", 41}});

/// Element i of a parameter in a step of a rank.
float value(int rank, int parameter, std::size_t i) {
  return 0.25F * static_cast<float>(rank + 1) -
         0.01F * static_cast<float>(parameter * 100 + static_cast<int>(i % 97));
}

class Job {
 public:
  Job(Communicator comm, Means means, GradientScalerOptions options)
      : comm_(comm),
        reducer_(comm, tensors, {.buckets = BucketBytes{600}, .means = means}),
        scaler_(comm, reducer_, options) {}

  StepResult step(double bad = 0) {
    reducer_.begin_step();
    for (int parameter = tensors.parameters() - 1; parameter >= 0; --parameter) {
      const auto out = reducer_.gradient(ParamId{parameter}).as<float>();
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = value(comm_.rank(), parameter, i) * static_cast<float>(scaler_.loss_scale());
      if (comm_.rank() == 1 && parameter == 1 && bad != 0) out[40] = static_cast<float>(bad);
      reducer_.mark_ready(ParamId{parameter}, compute_);
    }
    reducer_.finish_step(compute_);
    return scaler_.step(compute_);
  }
  /// The means that this rank has, each an element of the flat space times `factor`, where it has one.
  void expect_means(int ranks, double factor) {
    for (const Bucket& bucket : reducer_.plan().buckets()) {
      const auto part = reducer_.means(bucket).as<float>();
      const std::int64_t begin =
          bucket.begin + (std::ssize(part) < bucket.count() ? comm_.rank() * std::ssize(part) : 0);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const std::int64_t at = begin + static_cast<std::int64_t>(i);
        double mean = 0;
        for (int parameter = 0; parameter < tensors.parameters(); ++parameter) {
          const std::int64_t element = at - tensors.offset(ParamId{parameter});
          if (element < 0 || element >= tensors.count(ParamId{parameter})) continue;
          for (int rank = 0; rank < ranks; ++rank)
            mean += static_cast<double>(value(rank, parameter, static_cast<std::size_t>(element))) / ranks;
        }
        ASSERT_NEAR(part[i], mean * factor, 1e-5) << "element " << at;
      }
    }
  }
  const GradientScaler& scaler() const { return scaler_; }

 private:
  Communicator comm_;
  Stream compute_;
  GradientReducer reducer_;
  GradientScaler scaler_;
};

/// The slow twin.
double norm_of_means(int ranks) {
  double squares = 0;
  for (int parameter = 0; parameter < tensors.parameters(); ++parameter) {
    for (std::int64_t i = 0; i < tensors.count(ParamId{parameter}); ++i) {
      double mean = 0;
      for (int rank = 0; rank < ranks; ++rank)
        mean += static_cast<double>(value(rank, parameter, static_cast<std::size_t>(i))) / ranks;
      squares += mean * mean;
    }
  }
  return std::sqrt(squares);
}

TEST(GradientScaler, ClipsByTheNormOfAllMeansWhereverTheyLie) {
  for (const int ranks : {1, 2, 3}) {
    const double norm = norm_of_means(ranks);
    for (const Means means : {Means::everywhere, Means::sharded}) {
      for (const double clip : {norm / 4, norm * 4}) {
        run_as_threads(ranks, [&](Communicator comm) {
          Job job(comm, means, {.clip_norm = clip});
          for (int step = 0; step < 3; ++step) {
            const StepResult result = job.step();
            ASSERT_TRUE(result.norm);
            EXPECT_NEAR(*result.norm, norm, 1e-4 * norm);
            job.expect_means(ranks, clip < norm ? 0.25 : 1);
          }
        });
      }
    }
  }
}

TEST(GradientScaler, TakesTheLossScaleAwayAndFindsIt) {
  log::set_sink([](log::Level, std::string_view) {});
  run_as_threads(2, [](Communicator comm) {
    Job job(comm, Means::everywhere, {.loss_scale = LossScalerOptions{.initial = 1024, .hysteresis = 1}});
    EXPECT_EQ(job.scaler().loss_scale(), 1024);
    EXPECT_FALSE(job.step().skipped);
    job.expect_means(2, 1);
    EXPECT_TRUE(job.step(std::numeric_limits<double>::infinity()).skipped);
    EXPECT_EQ(job.scaler().loss_scale(), 512);
    EXPECT_NEAR(*job.step().norm, norm_of_means(2), 1e-3);
    job.expect_means(2, 1);
  });
  log::set_sink(nullptr);
}

TEST(GradientScaler, AndItsReducerAreCountedByTheMeter) {
  log::set_sink([](log::Level, std::string_view) {});
  run_as_threads(2, [](Communicator comm) {
    comm.meter().account_every(2);
    const auto figure = [&](std::string_view name) {
      const auto all = comm.meter().read();
      const auto found = std::ranges::find(all, name, &MetricFamily::name);
      return found == all.end() || found->samples.empty() ? -1 : found->samples.front().value;
    };
    EXPECT_EQ(figure("weft_loss_scale"), -1);
    {
      Job job(comm, Means::everywhere, {.loss_scale = LossScalerOptions{.initial = 1024, .hysteresis = 1}});
      EXPECT_EQ(figure("weft_loss_scale"), 1024);
      EXPECT_EQ(figure("weft_gradient_norm"), -1);
      job.step();
      job.step(std::numeric_limits<double>::infinity());
      EXPECT_EQ(figure("weft_accounted_steps_total"), 0);
      job.step();
      job.step();
    }
    EXPECT_EQ(figure("weft_steps_total"), 4);
    EXPECT_EQ(figure("weft_skipped_steps_total"), 1);
    EXPECT_EQ(figure("weft_loss_scale"), 512);
    EXPECT_NEAR(figure("weft_gradient_norm"), norm_of_means(2), 1e-3);
    EXPECT_EQ(figure("weft_accounted_steps_total"), 2);  // at the beginning of the third step
    EXPECT_GT(figure("weft_accounted_seconds_total"), 0);
    EXPECT_GT(figure("weft_exposed_seconds_total"), 0);
    const auto bytes = static_cast<double>(4 * 4 * tensors.size());
    EXPECT_GE(figure("weft_gradient_raw_bytes_total"), bytes);
    EXPECT_EQ(figure("weft_gradient_raw_bytes_total"), figure("weft_gradient_wire_bytes_total"));
  });
  log::set_sink(nullptr);
}

TEST(GradientScaler, RefusesNanByRankAndParameterUnlessItIsToSkip) {
  log::set_sink([](log::Level, std::string_view) {});
  for (const Means means : {Means::everywhere, Means::sharded}) {
    run_as_threads(2, [&](Communicator comm) {
      Job job(comm, means, {});
      EXPECT_FALSE(job.step().skipped);
      test::expect_error(ErrorKind::usage,
                         {"step #2: rank 1 has 1 NaN and 0 infinite values in its gradients, first in bias"},
                         [&] { job.step(NAN); });
      EXPECT_FALSE(job.step().skipped);
    });
    run_as_threads(2, [&](Communicator comm) {
      Job job(comm, means, {.non_finite = NonFinite::skip_step});
      EXPECT_TRUE(job.step(NAN).skipped);
      EXPECT_FALSE(job.step().skipped);
    });
  }
  log::set_sink(nullptr);
}

TEST(GradientScaler, ClipsAndLooksForNanOnDevices) {
  const test::WithFakeCuda cuda;
  const test::WithFakeUpdate update;
  test::FakeNcclRanks nccl;
  const double norm = norm_of_means(2);
  test::run_with_fakes(nccl, 2, [&](Communicator comm) {
    Stream compute(comm.device());
    GradientReducer reducer(comm, tensors, {.buckets = BucketBytes{600}});
    GradientScaler scaler(comm, reducer, {.clip_norm = norm / 4});
    const auto step = [&](bool is_bad) {
      reducer.begin_step();
      for (int parameter = tensors.parameters() - 1; parameter >= 0; --parameter) {
        std::vector<float> here(static_cast<std::size_t>(tensors.count(ParamId{parameter})));
        for (std::size_t i = 0; i < here.size(); ++i) here[i] = value(comm.rank(), parameter, i);
        if (is_bad && comm.rank() == 1) here[7] = NAN;
        copy(reducer.gradient(ParamId{parameter}), ConstView(std::span(here)), compute);
        compute.synchronize();
        reducer.mark_ready(ParamId{parameter}, compute);
      }
      reducer.finish_step(compute);
      return scaler.step(compute);
    };
    EXPECT_NEAR(*step(false).norm, norm, 1e-4 * norm);
    std::vector<float> bias(41);
    copy(View(std::span(bias)), reducer.gradient(ParamId{1}), compute);
    compute.synchronize();
    EXPECT_NEAR(bias[40], (value(0, 1, 40) + value(1, 1, 40)) / 8, 1e-5);
    test::expect_error(ErrorKind::usage, {"rank 1 has 2 NaN and 0 infinite values", "first in weight"},
                       [&] { step(true); });
  });
}

TEST(GradientScaler, RefusesOptionsThatContradictOrDiffer) {
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"clip_norm is -1"},
                       [&] { Job(comm, Means::everywhere, {.clip_norm = -1.0}); });
    test::expect_error(ErrorKind::mismatch, {"different GradientScalerOptions", "clips to 1 ", "clips to 2 "},
                       [&] { Job(comm, Means::everywhere, {.clip_norm = comm.rank() == 0 ? 1.0 : 2.0}); });
  });
}

}  // namespace
}  // namespace weft::zero
