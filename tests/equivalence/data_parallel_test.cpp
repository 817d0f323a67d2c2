// Data-parallel training against training on one rank: bitwise the same parameters where the order of sums is
// the same, equal within rounding where it is not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "long_training.hpp"
#include "made_trainings.hpp"
#include "weft-scaling/gpt/trainer/trainer.hpp"

namespace weft::examples {
namespace {

struct Job {
  int ranks = 1;
  int micro_steps = 1;
  int batches = 0;
  std::optional<std::size_t> bucket_bytes = 16 << 10;  ///< nullopt: planned where a thread carries the wire
  bool overlap = false;                                ///< communication on a thread of its own
  bool shared_memory = true;
  bool lanes = false;  ///< without a thread, a stream for every bucket
  int stage = 0;
  std::size_t prefetch_bytes = 0;
  std::shared_ptr<CommHook> (*hook)() = nullptr;

  std::optional<Stream> wire() const {
    if (lanes) return std::nullopt;
    return overlap ? Stream::queued() : Stream();
  }
};

std::shared_ptr<CommHook> tree() {
  return tree_hook(8);
}

// Makes the progress of reducers without a given wire inline. Set before there are threads that might read
// it.
[[maybe_unused]] const int progress_is_inline = setenv("WEFT_PROGRESS", "inline", 1);

/// Returns the parameters after training, which all ranks must hold alike.
template <class Real>
std::vector<Real> train(const ModelSpec& spec, std::int64_t steps, const Job& job) {
  const Text text = make_text(spec);
  std::vector<Real> result;
  std::mutex mutex;
  run_as_threads(job.ranks,
                 [&](Communicator comm) {
                   Trainer<Real> trainer(comm, spec, text,
                                         {.share = {comm.rank(), comm.size()},
                                          .micro_steps = job.micro_steps,
                                          .batches = job.batches,
                                          .steps = steps,
                                          .sharding = {.stage = job.stage,
                                                       .hook = job.hook ? job.hook() : nullptr,
                                                       .bucket_bytes = job.bucket_bytes,
                                                       .wire = job.wire(),
                                                       .prefetch_bytes = job.prefetch_bytes}});
                   for (std::int64_t step = 0; step < steps; ++step) trainer.step();
                   const auto parameters = trainer.parameters();
                   const std::lock_guard lock(mutex);
                   if (result.empty()) result.assign(parameters.begin(), parameters.end());
                   EXPECT_TRUE(std::ranges::equal(result, parameters)) << "ranks hold different parameters";
                 },
                 {.shared_memory = job.shared_memory});
  return result;
}

class DataParallel : public testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, DataParallel, testing::Values(OptimizerKind::sgd, OptimizerKind::adamw),
                         [](const auto& kind) { return kind.param == OptimizerKind::sgd ? "sgd" : "adamw"; });

TEST_P(DataParallel, TwoRanksAreBitwiseOneRankThatAccumulatesTheSameParts) {
  const ModelSpec spec = tiny(GetParam());
  EXPECT_EQ(train<float>(spec, 30, {.ranks = 2}), train<float>(spec, 30, {.ranks = 1, .micro_steps = 2}));
}

TEST_P(DataParallel, AnyNumberOfRanksIsBitwiseOneRankThatAccumulates) {
  const ModelSpec spec = tiny(GetParam());
  for (const int ranks : {3, 5, 8}) {
    EXPECT_EQ(train<float>(spec, 5, {.ranks = ranks}),
              train<float>(spec, 5, {.ranks = 1, .micro_steps = ranks}))
        << ranks;
  }
}

// Ranks that are lost: the others share out the same batches, the first of them one more. Sums are in the order of
// ranks, so that only the first rank's part of them may be longer; and the mean over a power of two of ranks is undone
// without rounding.
TEST_P(DataParallel, FewerRanksThatShareOutTheSameBatchesAreBitwiseAsMany) {
  const ModelSpec spec = tiny(GetParam());
  for (const int batches : {3, 5}) {
    const std::vector<float> reference = train<float>(spec, 20, {.ranks = batches});
    const int fewer = batches - 1;
    EXPECT_EQ(train<float>(spec, 20, {.ranks = fewer, .batches = batches}), reference) << batches;
    EXPECT_EQ(train<float>(spec, 20, {.ranks = fewer, .batches = batches, .stage = 1}), reference) << batches;
    EXPECT_EQ(train<float>(spec, 20, {.ranks = batches, .batches = batches}), reference) << batches;
  }
}

TEST_P(DataParallel, BucketSizeOverlapAndMemoryDoNotChangeABit) {
  const ModelSpec spec = tiny(GetParam());
  const std::vector<float> reference = train<float>(spec, 20, {.ranks = 2});
  for (const std::size_t bucket_bytes :
       {std::size_t{1}, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{25} << 20}) {
    for (const bool overlap : {false, true}) {
      EXPECT_EQ(train<float>(spec, 20, {.ranks = 2, .bucket_bytes = bucket_bytes, .overlap = overlap}),
                reference);
    }
  }
  EXPECT_EQ(train<float>(spec, 20, {.ranks = 2, .shared_memory = false}), reference);
}

const std::int64_t long_training = test::long_training();

TEST_P(DataParallel, LongTrainingDependsOnNeitherBucketsNorThreads) {
  const ModelSpec spec = tiny(GetParam());
  const std::vector<float> reference = train<float>(spec, long_training, {.ranks = 2});
  const std::vector<Job> jobs{{.ranks = 2, .bucket_bytes = 1},
                              {.ranks = 2, .bucket_bytes = 1, .overlap = true},
                              {.ranks = 2, .bucket_bytes = 25 << 20, .overlap = true},
                              {.ranks = 2, .bucket_bytes = std::nullopt, .overlap = true},
                              {.ranks = 2, .bucket_bytes = 4096, .lanes = true}};
  for (std::size_t i = 0; i < jobs.size(); ++i)
    EXPECT_EQ(train<float>(spec, long_training, jobs[i]), reference) << i;
}

TEST_P(DataParallel, LongTrainingWithADeterministicTreeIsTheSameOnAnyNumberOfRanks) {
  const ModelSpec spec = tiny(GetParam());
  const std::vector<float> reference =
      train<float>(spec, long_training, {.ranks = 1, .micro_steps = 8, .hook = tree});
  for (const int ranks : {2, 4, 8}) {
    for (const bool overlap : {false, true}) {
      const Job job{.ranks = ranks, .micro_steps = 8 / ranks, .overlap = overlap, .hook = tree};
      EXPECT_EQ(train<float>(spec, long_training, job), reference) << ranks;
    }
  }
  EXPECT_NE(train<float>(spec, long_training, {.ranks = 2, .micro_steps = 4}), reference)
      << "sums in rank order should round differently somewhere";
}

TEST_P(DataParallel, TheSameRunTwiceIsBitwiseTheSame) {
  const ModelSpec spec = tiny(GetParam());
  EXPECT_EQ(train<float>(spec, 20, {.ranks = 4, .overlap = true}),
            train<float>(spec, 20, {.ranks = 4, .overlap = true}));
}

TEST_P(DataParallel, LongTrainingIsTheSameInEveryStageOfZero) {
  const ModelSpec spec = tiny(GetParam());
  const std::vector<float> reference = train<float>(spec, long_training, {.ranks = 2});
  const std::vector<Job> jobs{{.ranks = 2, .stage = 1},
                              {.ranks = 2, .bucket_bytes = 1, .stage = 1},
                              {.ranks = 2, .stage = 2},
                              {.ranks = 2, .bucket_bytes = 1 << 20, .overlap = true, .stage = 2},
                              {.ranks = 2, .stage = 3},
                              {.ranks = 2, .bucket_bytes = 1, .stage = 3, .prefetch_bytes = 1 << 20},
                              {.ranks = 2, .overlap = true, .stage = 3, .prefetch_bytes = 40 << 10},
                              {.ranks = 2, .lanes = true, .stage = 3, .prefetch_bytes = 1 << 20}};
  for (std::size_t i = 0; i < jobs.size(); ++i)
    EXPECT_EQ(train<float>(spec, long_training, jobs[i]), reference) << i;
}

TEST(DataParallelSharded, PowerSgdIsTheSameInEveryStageOfZero) {
  const ModelSpec spec = tiny(OptimizerKind::adamw);
  const auto hook = []() -> std::shared_ptr<CommHook> { return power_sgd({.rank = 2, .start_step = 2}); };
  const std::vector<float> reference = train<float>(spec, 40, {.ranks = 2, .hook = hook});
  for (const int stage : {1, 2, 3})
    EXPECT_EQ(train<float>(spec, 40, {.ranks = 2, .stage = stage, .hook = hook}), reference) << stage;
}

TEST(DataParallelDouble, AnyNumberOfRanksSharesOutTheSameBatchesInEveryStage) {
  const ModelSpec spec = tiny(OptimizerKind::sgd);
  const std::vector<double> reference = train<double>(spec, 30, {.ranks = 1, .batches = 5});
  for (const int ranks : {2, 3, 4, 5, 7}) {
    for (const int stage : {0, 1, 2, 3}) {
      const auto shared = train<double>(spec, 30, {.ranks = ranks, .batches = 5, .stage = stage});
      EXPECT_LE(relative_error(shared, reference), 1e-12) << ranks << " ranks, stage " << stage;
    }
  }
}

TEST(DataParallelDouble, FiftySgdStepsEqualTheWholeBatchOnOneRankToRounding) {
  ModelSpec spec = tiny(OptimizerKind::sgd);
  const std::vector<double> two = train<double>(spec, 50, {.ranks = 2});
  spec.sequences *= 2;
  const std::vector<double> one = train<double>(spec, 50, {.ranks = 1});
  const double error = relative_error(two, one);
  EXPECT_LE(error, 1e-9);
  EXPECT_GT(error, 0) << "the two orders of summation should round differently somewhere";
  RecordProperty("relative_error", text(error));
}

}  // namespace
}  // namespace weft::examples
