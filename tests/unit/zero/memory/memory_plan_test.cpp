// Compares plans with the memory that ranks hold, and the closed form with plans.

#include "weft/zero/memory_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <mutex>

#include "models.hpp"
#include "support/expect_error.hpp"
#include "support/same_everywhere.hpp"
#include "support/temporary_folder.hpp"
#include "support/uring.hpp"
#include "support/zero_training.hpp"

namespace weft::zero {
namespace {

using test::ZeroTraining;

/// The same options for ShardedParams.
ShardedOptions sharding_of(const MemoryOptions& options) {
  ShardedOptions sharding{.stage = options.stage,
                          .units = options.units,
                          .prefetch_bytes = options.prefetch_bytes,
                          .held_units = options.held_units,
                          .whole_below = options.whole_below};
  sharding.bucket_bytes = options.bucket_bytes;
  sharding.bucket_ring_bytes = options.bucket_ring_bytes;
  return sharding;
}

/// Bytes that each rank holds; all ranks must hold the same.
std::int64_t held_bytes(const ParamLayout& layout, int ranks, const MemoryOptions& options) {
  std::mutex mutex;
  std::vector<std::int64_t> held;
  run_as_threads(ranks, [&](const Communicator& comm) {
    ShardedParams params(comm, layout, sharding_of(options));
    const ShardedOptimizer optimizer(params, options.optimizer, {.master = options.master});
    const std::lock_guard lock(mutex);
    held.push_back(params.held_bytes() + optimizer.state_bytes());
  });
  for (const std::int64_t bytes : held) EXPECT_EQ(bytes, held.front()) << "ranks differ";
  return held.front();
}

std::vector<MemoryOptions> some_options(int stage, DataType dtype) {
  const std::vector<ParamId> units = ZeroTraining::units();
  std::vector<MemoryOptions> all{
      {.stage = stage},
      {.stage = stage, .bucket_bytes = 1, .units = units, .optimizer = Sgd{}},
      {.stage = stage, .bucket_bytes = 2000, .units = units, .prefetch_bytes = 0, .optimizer = Adam{}},
      {.stage = stage,
       .bucket_bytes = 4000,
       .units = units,
       .prefetch_bytes = 20000,
       .held_units = 2,
       .whole_below = 700,
       .optimizer = Sgd{.momentum = 0.9}},
      {.stage = stage, .units = units, .whole_below = 1 << 30}};
  if (stage > 0) {
    all.push_back({.stage = stage, .bucket_bytes = 1, .bucket_ring_bytes = 0, .units = units});
    all.push_back({.stage = stage, .bucket_bytes = 1, .bucket_ring_bytes = 9999, .units = units});
    all.push_back({.stage = stage, .bucket_ring_bytes = 1 << 20, .units = units});
  }
  if (dtype == DataType::bf16) all.push_back({.stage = stage, .units = units, .master = Master::split});
  return all;
}

TEST(MemoryPlan, IsWhatRanksHoldToTheByte) {
  for (const DataType dtype : {DataType::f32, DataType::bf16}) {
    const ParamLayout layout = ZeroTraining::layout(dtype);
    for (const int ranks : {1, 2, 3, 4, 8}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const MemoryOptions& options : some_options(stage, dtype)) {
          const MemoryPlan plan = plan_memory(layout, ranks, options);
          EXPECT_EQ(plan.bytes(Place::device), held_bytes(layout, ranks, options)) << plan;
          EXPECT_EQ(plan.bytes(Place::host) + plan.bytes(Place::file), 0) << plan;
        }
      }
    }
  }
}

/// Layers are units: the name up to the second point in "h.3.proj.weight", up to the first in "fc.bias".
std::vector<ParamId> units_of(const ParamLayout& layout) {
  std::vector<ParamId> units;
  std::string last;
  for (int i = 0; i < layout.parameters(); ++i) {
    const std::string& name = layout.name(ParamId{i});
    std::size_t end = name.find('.');
    if (end != std::string::npos && std::isdigit(static_cast<unsigned char>(name[end + 1])) != 0)
      end = name.find('.', end + 1);
    std::string layer = name.substr(0, end);
    if (layer != last) units.push_back(ParamId{i});
    last = std::move(layer);
  }
  return units;
}

/// The model of tools/weft-scaling/gpt: 5 layers of width 384 over bytes.
bench::Model gpt_ref() {
  bench::Model model{"gpt-ref", {}, {}};
  constexpr std::int64_t width = 384;
  model.add("embedding.token", {256, width}, 0);
  model.add("embedding.position", {128, width}, 0);
  for (int layer = 0; layer < 5; ++layer) {
    const auto add = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      model.add(text("block.", layer, '.', name, ".weight"), {out, in}, 0);
      model.add(text("block.", layer, '.', name, ".bias"), {out}, 0);
    };
    add("norm1", width, 1);
    add("qkv", 3 * width, width);
    add("output", width, width);
    add("norm2", width, 1);
    add("up", 4 * width, width);
    add("down", width, 4 * width);
  }
  model.add("norm.gain", {width}, 0);
  model.add("norm.bias", {width}, 0);
  model.add("head.weight", {256, width}, 0);
  return model;
}

TEST(MemoryEstimate, IsWithinOnePercentOfThePlan) {
  for (const bench::Model& model :
       {gpt_ref(), bench::resnet50(1), bench::bert_large(1), bench::gpt2(1), bench::llama_7b(1)}) {
    for (const DataType dtype : {DataType::f32, DataType::bf16}) {
      const ParamLayout layout(dtype, model.params);
      const std::vector<ParamId> units = units_of(layout);
      for (int ranks = 1; ranks <= 8; ++ranks) {
        for (const int stage : {0, 1, 2, 3}) {
          for (const MemoryOptions& options :
               {MemoryOptions{.stage = stage, .units = units}, MemoryOptions{.stage = stage},
                MemoryOptions{.stage = stage, .units = units, .prefetch_bytes = 1 << 28, .held_units = 2},
                MemoryOptions{.stage = stage, .units = units, .offload = {.share = 0.7}},
                MemoryOptions{
                    .stage = stage, .units = units, .offload = {.share = 0.9, .file_share = 0.8}}}) {
            const MemoryPlan plan = plan_memory(layout, ranks, options);
            const MemoryPlan near = estimate_memory(ModelSize::of(layout, options.units), ranks, options);
            for (const Place place : {Place::device, Place::host, Place::file}) {
              const auto bytes = static_cast<double>(plan.bytes(place));
              EXPECT_NEAR(static_cast<double>(near.bytes(place)), bytes, 0.01 * bytes + 65536)
                  << model.name << ' ' << plan << near;
            }
          }
        }
      }
    }
  }
}

// A bucket may hold the largest tensor and smaller ones before it, which are less than bucket_bytes.
TEST(MemoryEstimate, IsShortByLessThanABucketWhereTheRingIsSmall) {
  const ParamLayout layout(DataType::bf16, bench::resnet18(1).params);
  for (const std::vector<ParamId>& units : {std::vector<ParamId>{}, units_of(layout)}) {
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 20, std::size_t{25} << 20}) {
      for (const std::size_t bucket_ring_bytes :
           {std::size_t{0}, std::size_t{30} << 20, std::size_t{1} << 30}) {
        const MemoryOptions options{
            .stage = 2, .bucket_bytes = bucket_bytes, .bucket_ring_bytes = bucket_ring_bytes, .units = units};
        const MemoryPlan plan = plan_memory(layout, 2, options);
        const MemoryPlan near = estimate_memory(ModelSize::of(layout, units), 2, options);
        const std::int64_t missing = plan.bytes(Place::device) - near.bytes(Place::device);
        EXPECT_GE(missing, 0) << plan << near;
        EXPECT_LE(missing, static_cast<std::int64_t>(bucket_bytes) + 65536) << plan << near;
      }
    }
  }
}

// 1000 parameters of f32 and AdamW in one unit: the table of stage.hpp.
TEST(MemoryEstimate, IsTheTableOfStages) {
  const ModelSize model{.parameters = 1000, .largest_parameter = 10, .largest_unit = 50, .units = 20};
  const auto device = [&](int stage, int ranks) {
    return estimate_memory(model, ranks, {.stage = stage}).bytes(Place::device);
  };
  EXPECT_EQ(device(0, 4), 16 * 1000);
  EXPECT_EQ(device(1, 4), 8 * 1000 + 8 * 250);
  EXPECT_EQ(device(2, 4), 4 * 1000 + 12 * 250 + 4 * 125);
  EXPECT_EQ(device(3, 4), 16 * 250 + 4 * 125 + 4 * 2 * 50);
}

TEST(MemoryPlan, OffloadingMovesAndAddsWhatTravels) {
  const ParamLayout layout = ZeroTraining::layout(DataType::bf16);
  const MemoryOptions here{.stage = 3, .units = ZeroTraining::units()};
  const MemoryPlan plan = plan_memory(layout, 2, here);
  MemoryOptions options = here;
  options.offload.share = 1;
  const MemoryPlan all = plan_memory(layout, 2, options);
  const auto of = [](const MemoryPlan& one, Content content, Place place) {
    std::int64_t bytes = 0;
    for (const MemoryRow& row : one.rows)
      bytes += row.content == content && row.place == place ? row.bytes : 0;
    return bytes;
  };
  for (const Content content : {Content::masters, Content::first_moments, Content::second_moments}) {
    EXPECT_EQ(of(all, content, Place::device), 0);
    EXPECT_EQ(of(all, content, Place::host), of(plan, content, Place::device));
  }
  options.offload.share = 0.25;
  options.offload.file_share = 1;
  const MemoryPlan some = plan_memory(layout, 2, options);
  const std::int64_t masters = of(plan, Content::masters, Place::device);
  EXPECT_EQ(of(some, Content::masters, Place::device) + of(some, Content::masters, Place::file), masters);
  EXPECT_NEAR(static_cast<double>(of(some, Content::masters, Place::file)),
              0.25 * static_cast<double>(masters), 12 * 128);
  options.offload.parameters = true;
  options.offload.gradients = true;
  const MemoryPlan most = plan_memory(layout, 2, options);
  for (const Content content : {Content::parameter_shard, Content::gradient_shard}) {
    EXPECT_EQ(of(most, content, Place::device), 0);
    EXPECT_EQ(of(most, content, Place::host), of(plan, content, Place::device));
  }
  EXPECT_EQ(of(most, Content::parameter_copies, Place::host), 0) << "the shard is there";
  EXPECT_EQ(of(most, Content::gradient_tiles, Place::host), 0);
  EXPECT_NE(most, some);
  EXPECT_EQ(most, plan_memory(layout, 2, options));
}

TEST(MemoryPlan, IsWhatRulesOfWholeTensorsHold) {
  for (const DataType dtype : {DataType::f32, DataType::bf16}) {
    const ParamLayout layout = ZeroTraining::layout_of_matrices(dtype);
    for (const Optimizer& rule : {Optimizer(Muon{}), Optimizer(Lamb{}), Optimizer(Lars{})}) {
      if (std::holds_alternative<Muon>(rule) && test::why_no_blas()) continue;
      for (const int stage : {0, 2, 3}) {
        const MemoryOptions options{.stage = stage, .optimizer = rule};
        const MemoryPlan plan = plan_memory(layout, 3, options);
        EXPECT_EQ(held_bytes(layout, 3, options), plan.bytes(Place::device)) << plan;
        const bool owns = std::ranges::any_of(
            plan.rows, [](const MemoryRow& row) { return row.content == Content::owned_matrices; });
        EXPECT_EQ(owns, std::holds_alternative<Muon>(rule));
      }
    }
  }
  const ParamLayout layout = ZeroTraining::layout_of_matrices();
  test::expect_error(ErrorKind::usage, {"offloaded state", "whole tensors"},
                     [&] { (void)plan_memory(layout, 2, {.optimizer = Muon{}, .offload = {.share = 0.5}}); });
}

TEST(MemoryPlan, IsWhatOffloadingHoldsInMemoryAndInTheFile) {
  if (const auto why = test::why_no_uring()) GTEST_SKIP() << *why;
  const test::TemporaryFolder folder;
  const ParamLayout layout = ZeroTraining::layout(DataType::bf16);
  for (const int stage : {1, 2, 3}) {
    for (const double file_share : {0.0, 0.4, 1.0}) {
      MemoryOptions options{.stage = stage, .bucket_bytes = 4000, .units = ZeroTraining::units()};
      options.offload = {.share = 0.8, .file_share = file_share, .tile_bytes = 1000};
      const MemoryPlan plan = plan_memory(layout, 2, options);
      run_as_threads(2, [&](const Communicator& comm) {
        ShardedParams params(comm, layout, sharding_of(options));
        const ShardedOptimizer adam(
            params, options.optimizer,
            {.offload = {
                 .share = 0.8, .tile_bytes = 1000, .directory = folder.path(), .file_share = file_share}});
        std::int64_t offloaded = 0;
        for (const MemoryRow& row : plan.rows) offloaded += row.place == Place::host ? row.bytes : 0;
        EXPECT_EQ(adam.host_bytes(), offloaded) << plan;
        EXPECT_EQ(params.held_bytes() + adam.state_bytes(), plan.bytes(Place::device));
        EXPECT_GE(adam.file_bytes(), plan.bytes(Place::file));
        EXPECT_LE(adam.file_bytes(), plan.bytes(Place::file) + 12 * 4096) << "frames are whole blocks";
      });
    }
  }
}

TEST(MemoryPlan, PrintsItsRowsAndTotals) {
  const ParamLayout layout(DataType::bf16, {{"weight", 128}});
  EXPECT_EQ(
      text(plan_memory(layout, 2, {.stage = 1, .optimizer = Sgd{.momentum = 0.5}, .offload = {.share = 1}})),
      "stage 1 on 2 ranks\n"
      "  parameters        device               256 bytes\n"
      "  gradients         device               256 bytes\n"
      "  masters           host                 256 bytes\n"
      "  first moments     host                 256 bytes\n"
      "  parameter copies  host                 128 bytes\n"
      "  gradient tiles    host                 256 bytes\n"
      "  all               device               512 bytes\n"
      "  all               host                 896 bytes\n");
}

TEST(MemoryPlan, LargestModelAndLeastRanksAreTheLast) {
  const ParamLayout layout(DataType::bf16, bench::gpt2(1).params);
  const std::vector<ParamId> units = units_of(layout);
  const ModelSize model = ModelSize::of(layout, units);
  constexpr std::int64_t card = std::int64_t{1} << 30;
  for (const int stage : {0, 1, 2, 3}) {
    const MemoryOptions options{.stage = stage};
    const auto bytes = [&](std::int64_t parameters, int ranks) {
      return estimate_memory(model.scaled_to(parameters), ranks, options).bytes(Place::device);
    };
    const std::int64_t largest = largest_model(model, 4, options, card);
    EXPECT_LE(bytes(largest, 4), card);
    EXPECT_GT(bytes(largest + largest / 1000, 4), card);
    const std::optional<int> ranks = least_ranks(model, options, card);
    EXPECT_EQ(ranks.has_value(), stage > 0) << "16 bytes a parameter are 2 GB";
    if (!ranks) continue;
    EXPECT_LE(bytes(model.parameters, *ranks), card);
    EXPECT_GT(bytes(model.parameters, *ranks - 1), card);
  }
}

TEST(MemoryPlan, RefusesWhatTheEngineRefuses) {
  const ParamLayout layout(DataType::f32, {{"weight", 5}});
  const auto refused = [&](const MemoryOptions& options, const char* what, int ranks = 2) {
    test::expect_error(ErrorKind::usage, {what}, [&] { plan_memory(layout, ranks, options); });
  };
  refused({.stage = 4}, "stage 4");
  refused({.stage = 1}, "fewer parameters than shards", 6);
  refused({}, "a plan for 0 ranks", 0);
  refused({.held_units = 0}, "held_units is 0");
  refused({.bucket_bytes = 0}, "bucket_bytes is 0");
  refused({.stage = 0, .bucket_ring_bytes = 64}, "bucket_ring_bytes in stage 0");
  refused({.units = {ParamId{1}}}, "the first unit begins with parameter 1");
  refused({.master = Master::split}, "split masters of parameters of f32");
  refused({.optimizer = Sgd{.momentum = 2}}, "momentum");
  refused({.offload = {.share = 1.5}}, "a share of 1.5 is offloaded");
  refused({.offload = {.share = 1, .file_share = -1}}, "of what is offloaded, a share of -1 lies in a file");
  refused({.stage = 2, .offload = {.parameters = true}}, "parameters are offloaded in stage 2");
  refused({.stage = 1, .offload = {.gradients = true}}, "gradients are offloaded in stage 1");
  test::expect_error(ErrorKind::usage, {"a parameter is at most a unit"}, [] {
    estimate_memory({.parameters = 10, .largest_parameter = 6, .largest_unit = 5}, 1, {});
  });
}

}  // namespace
}  // namespace weft::zero
