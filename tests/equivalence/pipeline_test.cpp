// A GPT trained through a pipeline against the same training in one piece: the same bits for every schedule
// and every ZeRO stage, and equal to one piece within rounding.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "made_trainings.hpp"
#include "weft-scaling/gpt/pipeline/pipeline_trainer.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::examples {
namespace {

struct PipelineJob {
  std::string schedule = "1f1b";
  int ranks = 2;
  int devices = 2;
  int stage = 0;
  bool recompute = false;
  std::optional<int> chunks{};
  int microbatch = 1;
  std::optional<double> clip_norm{};
};

std::vector<std::string> named() {
  std::vector<std::string> names;
  for (const auto& one : pipeline::named_schedules()) names.emplace_back(one.name);
  return names;
}

/// Returns the parameters after training, which all ranks must see alike.
std::vector<float> train(const ModelSpec& spec, std::int64_t steps, const PipelineJob& job) {
  const Text text = make_text(spec);
  std::vector<float> result;
  std::mutex mutex;
  run_as_threads(job.ranks, [&](Communicator comm) {
    PipelineTrainer<float> trainer(comm, spec, text,
                                   {.schedule = job.schedule,
                                    .devices = job.devices,
                                    .chunks = job.chunks,
                                    .microbatch = job.microbatch,
                                    .recompute = job.recompute,
                                    .steps = steps,
                                    .sharding = {.stage = job.stage},
                                    .stepping = {.clip_norm = job.clip_norm}});
    for (std::int64_t step = 0; step < steps; ++step) trainer.step();
    std::vector<float> parameters = trainer.parameters();
    const std::lock_guard lock(mutex);
    if (result.empty()) result = parameters;
    EXPECT_EQ(result, parameters) << "ranks see different parameters";
  });
  return result;
}

/// Trains on one rank, in one piece, with the sequences that `ranks` ranks would take.
std::vector<float> train_in_one_piece(ModelSpec spec, std::int64_t steps, int ranks, int micro_steps = 1,
                                      std::optional<double> clip_norm = {}) {
  const Text text = make_text(spec);
  spec.sequences = spec.sequences * ranks / micro_steps;
  Trainer<float> trainer(
      self(), spec, text,
      {.share = {}, .micro_steps = micro_steps, .steps = steps, .stepping = {.clip_norm = clip_norm}});
  for (std::int64_t step = 0; step < steps; ++step) trainer.step();
  return trainer.parameters();
}

TEST(Pipeline, EverySchedulesParametersAreTheSameBits) {
  const ModelSpec spec = tiny(OptimizerKind::sgd);
  const std::vector<float> reference = train(spec, 4, {.schedule = "gpipe"});
  for (const std::string& name : named()) {
    EXPECT_EQ(train(spec, 4, {.schedule = name}), reference) << name;
    EXPECT_EQ(train(spec, 4, {.schedule = name, .recompute = true}), reference) << name << ", recomputed";
  }
}

TEST(Pipeline, WhatIsFoundForMeasuredCostsHasTheSameBits) {
  const ModelSpec spec = tiny(OptimizerKind::sgd);
  const std::vector<float> reference = train(spec, 4, {.schedule = "gpipe"});
  EXPECT_EQ(train(spec, 4, {.schedule = "auto"}), reference);
  EXPECT_EQ(train(spec, 4, {.schedule = "auto", .recompute = true, .chunks = 3}), reference);
}

TEST(Pipeline, WhereTheModelIsCutChangesNoBit) {
  const auto trained = [](PipelineJob job) {
    ModelSpec spec = tiny(OptimizerKind::adamw);
    spec.sequences = 4 / job.devices;
    job.ranks = job.devices;
    return train(spec, 4, job);
  };
  const std::vector<float> reference = trained({.schedule = "1f1b", .devices = 1});
  EXPECT_EQ(trained({.schedule = "zb-h1", .devices = 1}), reference);
  EXPECT_EQ(trained({.schedule = "interleaved", .devices = 1, .chunks = 3}), reference);
  EXPECT_EQ(trained({.schedule = "interleaved", .devices = 2, .chunks = 3}), reference);
  EXPECT_EQ(trained({.schedule = "eager-1f1b", .devices = 4}), reference);
}

TEST(Pipeline, MicrobatchesAreTheMicroStepsOfOnePieceBitByBit) {
  const ModelSpec spec = tiny(OptimizerKind::adamw);
  EXPECT_EQ(train(spec, 10, {.schedule = "zb-h1"}), train_in_one_piece(spec, 10, 2, 4));
  EXPECT_EQ(train(spec, 10, {.schedule = "zb-v", .microbatch = 2}), train_in_one_piece(spec, 10, 2, 2));
}

TEST(Pipeline, GradientsAreClippedToTheNormOfTheWholeModel) {
  const ModelSpec spec = tiny(OptimizerKind::sgd);
  const std::vector<float> reference = train_in_one_piece(spec, 10, 2, 4, 0.05);
  EXPECT_NE(reference, train_in_one_piece(spec, 10, 2, 4));
  EXPECT_EQ(train(spec, 10, {.schedule = "zb-v", .clip_norm = 0.05}), reference);
  const PipelineJob sharded{.schedule = "1f1b", .ranks = 4, .stage = 3, .clip_norm = 0.05};
  const PipelineJob whole{.schedule = "1f1b", .ranks = 4, .clip_norm = 0.05};
  EXPECT_EQ(train(spec, 10, sharded), train(spec, 10, whole));
}

TEST(Pipeline, FiftySgdStepsEqualTheModelInOnePieceToRounding) {
  const ModelSpec spec = tiny(OptimizerKind::sgd);
  const std::vector<float> reference = train_in_one_piece(spec, 50, 2);
  const double error = relative_error(train(spec, 50, {.schedule = "zb-h1"}), reference);
  EXPECT_LE(error, 1e-6);
  EXPECT_GT(error, 0) << "the two orders of summation should round differently somewhere";
  RecordProperty("relative_error", text(error));
}

TEST(Pipeline, EveryStageOfZeroIsTheSameBits) {
  const ModelSpec spec = tiny(OptimizerKind::sgd);
  const std::vector<float> reference = train(spec, 4, {.schedule = "1f1b", .ranks = 4});
  for (const std::string& name : named()) {
    for (const int stage : {1, 2, 3})
      EXPECT_EQ(train(spec, 4, {.schedule = name, .ranks = 4, .stage = stage}), reference) << name << stage;
  }
  EXPECT_EQ(train(spec, 4, {.schedule = "v-half", .ranks = 4, .stage = 3, .recompute = true}), reference);
}

TEST(Pipeline, FiftySgdStepsUnderZeroEqualTheModelInOnePieceToRounding) {
  const ModelSpec spec = tiny(OptimizerKind::sgd);
  const std::vector<float> reference = train_in_one_piece(spec, 50, 4);
  for (const int stage : {2, 3}) {
    const PipelineJob job{.schedule = "zb-h1", .ranks = 4, .stage = stage};
    EXPECT_LE(relative_error(train(spec, 50, job), reference), 1e-6) << stage;
  }
}

TEST(Pipeline, HeldOutLossIsThatOfTheModelInOnePiece) {
  ModelSpec spec = tiny(OptimizerKind::adamw);
  const Text text = make_text(spec);
  for (const std::string name : {"1f1b", "zb-v", "interleaved"}) {
    run_as_threads(2, [&](Communicator comm) {
      PipelineTrainer<double> pipelined(comm, spec, text, {.schedule = name, .sharding = {.stage = 3}});
      ModelSpec whole = spec;
      whole.sequences *= 2;
      Trainer<double> single(self(), whole, text, {.share = {}});
      EXPECT_EQ(pipelined.sequences(), single.sequences());
      for (int step = 0; step < 3; ++step) {
        EXPECT_NEAR(pipelined.held_out_loss(4, 16), single.held_out_loss(4, 16), 1e-12) << name;
        pipelined.step();
        EXPECT_NEAR(pipelined.training_loss(), single.step(), 1e-12) << name;
      }
    });
  }
}

TEST(Pipeline, WhatCannotBeIsRefused) {
  const ModelSpec spec = tiny(OptimizerKind::sgd);
  const auto refusal = [&](const ModelSpec& model, const PipelineOptions& options, int ranks = 2) {
    const Text text = make_text(model);
    try {
      run_as_threads(ranks, [&](Communicator comm) { PipelineTrainer<float>(comm, model, text, options); });
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(refusal(spec, {.schedule = "1f1b", .devices = 3}),
              testing::HasSubstr("pipelines of 3 devices on 2 rank(s)"));
  EXPECT_THAT(refusal(spec, {.schedule = "zb-h3"}), testing::HasSubstr("did you mean zb-h1"));
  EXPECT_THAT(refusal(spec, {.microbatch = 3}), testing::HasSubstr("microbatches of 3 of the 4 sequences"));
  EXPECT_THAT(refusal(spec, {.schedule = "interleaved", .chunks = 4}),
              testing::HasSubstr("8 stages of a model of 6 units"));
  EXPECT_THAT(refusal(spec, {.schedule = "dualpipe-v", .microbatch = 2}), testing::HasSubstr("dualpipe-v"));
  EXPECT_THAT(refusal(model_spec("mlp-8x1024"), {}), testing::HasSubstr("only a GPT can be cut into stages"));
}

}  // namespace
}  // namespace weft::examples
