// A data-parallel pipeline of two stages with a tied weight, against the model in one piece: the same bits of
// parameters, norm, loss scale and skipped steps in every stage of ZeRO.

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "support/zero_training.hpp"
#include "weft/pipeline/tied_gradients.hpp"

namespace weft::pipeline {
namespace {

using test::ZeroTraining;
using Values = std::vector<float>;

struct Trained {
  std::map<std::string, Values> parameters;
  std::vector<double> norms;
  std::vector<int> skipped;
  double loss_scale = 1;

  friend bool operator==(const Trained&, const Trained&) = default;
};

constexpr std::int64_t embedding_count = 700;
constexpr int steps = 12;
constexpr int data_ranks = 2;

/// The part of the model that a rank trains: all of it, or one of two stages.
struct Part {
  std::vector<ParamSpec> specs;
  bool has_input = true, has_output = true;  ///< which uses of the embedding it has
};
const ParamSpec embedding{"embedding", embedding_count};
const Part whole{{embedding, {"a", 300}, {"b", 640}, {"c", 411}, {"d", 900}}};
const Part first_stage{{embedding, {"a", 300}, {"b", 640}}, true, false};
const Part last_stage{{embedding, {"c", 411}, {"d", 900}}, false, true};

/// The gradient of one use of a parameter. It does not depend on the parameter, so that a copy that drifts
/// away does not come back.
float slope(int step, int rank, std::uint64_t use, std::int64_t i) {
  const std::uint64_t bits = ZeroTraining::hash(ZeroTraining::hash(static_cast<std::uint64_t>(step), use),
                                                static_cast<std::uint64_t>(rank * 100'000 + i));
  return static_cast<float>(static_cast<std::int64_t>(bits >> 40U) - (1 << 23)) * 0x1p-21F;
}

/// The head's gradient overflows now and then, on one data-parallel rank.
void write(View gradient, int step, int rank, std::uint64_t use, double scale, bool adds) {
  for (std::int64_t i = 0; i < gradient.count(); ++i) {
    const float before = adds ? ZeroTraining::get(gradient, i) : 0.0F;
    ZeroTraining::put(gradient, i, before + static_cast<float>(slope(step, rank, use, i) * scale));
  }
  if (use == 1 && step % 4 == 2 && rank == 1)
    ZeroTraining::put(gradient, 17, std::numeric_limits<float>::infinity());
}

struct Training {
  int stage = 0;
  bool queued = false;
  bool in_small_ring = false;
  /// Data-parallel rank 0 of one stage and rank 1 of the other are late in backward.
  bool some_are_late = false;
  zero::ShardedOptimizerOptions stepping{
      .clip_norm = 40.0,
      .loss_scale = zero::LossScalerOptions{.initial = 8, .growth_interval = 3, .hysteresis = 1}};

  zero::ShardedOptions sharding() const {
    zero::ShardedOptions options{.stage = stage};
    if (in_small_ring) options.bucket_bytes = 1;
    if (in_small_ring) options.bucket_ring_bytes = 1;
    return options;
  }

  /// @param pipeline without one the model is in one piece
  Trained on(const Communicator& data, const Part& part, const std::optional<Communicator>& pipeline,
             bool counts_both = false) const {
    zero::ShardedParams params(data, ParamLayout(DataType::f32, part.specs), sharding());
    std::optional<TiedGradients> tied;
    zero::ShardedOptimizerOptions options = stepping;
    if (pipeline) {
      const std::vector<TiedParameter> list{{"embedding", DataType::f32, embedding_count, {0, 1}}};
      tied.emplace(*pipeline, std::vector<int>{0, 1}, list);
      options.whole_model = pipeline;
      if (!counts_both && !tied->counts(0, pipeline->rank())) options.counted_elsewhere = {ParamId{0}};
    }
    const int count = params.layout().parameters();
    for (int id = 0; id < count; ++id) {
      Values values(static_cast<std::size_t>(params.layout().count(ParamId{id})));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = slope(99, 0, ZeroTraining::hash(values.size(), 1), static_cast<std::int64_t>(i));
      params.load(ParamId{id}, ConstView(std::span(values)));
    }
    zero::ShardedOptimizer adam(params, zero::AdamW{.learning_rate = 1e-2}, options);
    Stream compute = queued ? Stream::queued() : Stream();
    Trained result;
    for (int step = 0; step < steps; ++step) {
      params.begin_step();
      backward(params, part, {step, data.rank(), adam.loss_scale()}, pipeline ? pipeline->rank() : 0, tied,
               compute);
      const zero::StepResult stepped = adam.step(compute);
      compute.synchronize();
      if (stepped.skipped) result.skipped.push_back(step);
      if (stepped.norm) result.norms.push_back(*stepped.norm);
    }
    for (int id = 0; id < count; ++id) {
      const Buffer values = params.whole(ParamId{id});
      const auto all = values.as<float>();
      result.parameters[params.layout().name(ParamId{id})] = Values(all.begin(), all.end());
    }
    result.loss_scale = adam.loss_scale();
    return result;
  }

 private:
  struct Now {
    int step;
    int rank;
    double scale;
  };

  void backward(zero::ShardedParams& params, const Part& part, const Now& now, int number,
                std::optional<TiedGradients>& tied, const Stream& compute) const {
    Stream stream = compute;
    for (int id = params.layout().parameters() - 1; id > 0; --id) {
      const View gradient = params.gradient(ParamId{id}, compute);
      const auto use = static_cast<std::uint64_t>(gradient.count());
      if (some_are_late && now.rank == number) std::this_thread::sleep_for(std::chrono::microseconds(300));
      stream.run([=] { write(gradient, now.step, now.rank, use, now.scale, false); });
      params.mark_ready(ParamId{id}, compute);
    }
    const View gradient = params.gradient(ParamId{0}, compute);
    stream.run([=, &part] {
      if (part.has_input) write(gradient, now.step, now.rank, 0, now.scale, false);
      if (part.has_output) write(gradient, now.step, now.rank, 1, now.scale, part.has_input);
    });
    if (tied) tied->begin(0, number, gradient, compute);
    if (tied) tied->await(0, number, compute);
    params.mark_ready(ParamId{0}, compute);
  }
};

Trained in_one_piece(const Training& job, int ranks = data_ranks) {
  Trained result;
  run_as_threads(ranks, [&](Communicator comm) {
    const Trained mine = job.on(comm, whole, std::nullopt);
    if (comm.rank() == 0) result = mine;
  });
  return result;
}

std::vector<Trained> in_two_stages(const Training& job) {
  std::vector<Trained> all;
  std::mutex mutex;
  const auto body = [&](Communicator comm) {
    const int stage = comm.rank() / data_ranks;
    const Communicator data = *comm.split(stage, comm.rank());
    const Communicator pipeline = *comm.split(data.rank(), stage);
    const Trained mine = job.on(data, stage == 0 ? first_stage : last_stage, pipeline);
    const std::lock_guard lock(mutex);
    all.push_back(mine);
  };
  run_as_threads(2 * data_ranks, body, {.timeout = std::chrono::seconds(60)});
  return all;
}

void expect_the_bits_of_one_piece(const Training& job) {
  const Trained reference = in_one_piece(job);
  EXPECT_EQ(reference.skipped.size(), 3U);
  EXPECT_GT(reference.norms.front(), 40) << "there should be something to clip";
  for (const Trained& one : in_two_stages(job)) {
    EXPECT_EQ(one.norms, reference.norms) << "stage " << job.stage;
    EXPECT_EQ(one.skipped, reference.skipped) << "stage " << job.stage;
    EXPECT_EQ(one.loss_scale, reference.loss_scale) << "stage " << job.stage;
    for (const auto& [name, values] : one.parameters)
      EXPECT_EQ(values == reference.parameters.at(name), true) << name << ", stage " << job.stage;
  }
}

TEST(TiedTraining, HasTheBitsOfTheModelThatHasTheWeightOnce) {
  for (const bool queued : {false, true}) {
    for (const int stage : {0, 1, 2, 3}) expect_the_bits_of_one_piece({.stage = stage, .queued = queued});
  }
}

TEST(TiedTraining, SoItHasWhereGradientsWaitForTheRingAndRanksAreLate) {
  for (const int stage : {2, 3})
    expect_the_bits_of_one_piece({.stage = stage, .in_small_ring = true, .some_are_late = true});
}

TEST(TiedTraining, CountsBothCopiesWhereNobodyLeavesOneOut) {
  Training job;
  job.stepping = {.clip_norm = 1e9};
  const Trained reference = in_one_piece(job, 1);
  run_as_threads(2, [&](Communicator comm) {
    const Communicator alone = *comm.split(comm.rank());
    const Trained mine = job.on(alone, comm.rank() == 0 ? first_stage : last_stage, comm, true);
    EXPECT_GT(mine.norms.front(), 1.1 * reference.norms.front()) << "which is why counted_elsewhere is there";
  });
}

}  // namespace
}  // namespace weft::pipeline
