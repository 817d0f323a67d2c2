// Bytes of a rank, beside published tables.

#include "weft-plan/scale/memory.hpp"

#include <gtest/gtest.h>

namespace weft::scale {
namespace {

Model gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.name = "gpt",
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * hidden,
          .vocabulary = 51200,
          .sequence = 2048};
}

double bytes_of(const Memory& memory, std::initializer_list<const char*> names) {
  double sum = 0;
  for (const MemoryPart& part : memory.parts) {
    for (const char* name : names) sum += part.name == name ? part.bytes : 0;
  }
  return sum;
}

/// Rajbhandari et al. 2020, table 1: 7.5 G parameters on 64 GPUs, 128 G and 1 T on 1024, under stages 1 to 3.
TEST(ScaleMemory, ModelStatesAreThoseOfTheZeroPaper) {
  struct Case {
    Model model;
    std::int64_t gpus;
    double published[3];  // GB
  };
  const Case cases[] = {{gpt(36, 4096, 32), 64, {31.4, 16.6, 1.88}},
                        {gpt(125, 9216, 72), 1024, {513, 257, 2}},
                        {gpt(127, 25600, 160), 1024, {4011, 2013, 15.6}}};
  const Hardware hardware = hardware_named("a100-80g").hardware;
  for (const Case& one : cases) {
    for (int stage = 1; stage <= 3; ++stage) {
      Plan plan{.gpus = one.gpus, .global_batch = one.gpus, .zero = stage};
      plan = completed(one.model, hardware, plan);
      const double scale = static_cast<double>(one.gpus == 64            ? 7.5e9
                                               : one.model.layers == 125 ? 128e9
                                                                         : 1e12) /
                           static_cast<double>(one.model.parameters());
      EXPECT_NEAR(scale, 1, 0.03) << one.model.parameters();
      const Memory memory = memory_of(one.model, hardware, plan, {0});
      const double states = bytes_of(memory, {"parameters", "parameter shard", "gradients", "gradient shard",
                                              "masters", "first moments", "second moments"});
      EXPECT_NEAR(states * scale / 1e9, one.published[stage - 1], 0.025 * one.published[stage - 1])
          << "stage " << stage << " of " << one.gpus;
    }
  }
}

/// Korthikanti et al. 2022, table 2: bytes of a layer's activations in units of s b h.
TEST(ScaleMemory, ActivationsAreThoseOfKorthikanti) {
  const Hardware hardware = hardware_named("a100-80g").hardware;
  const Model model = gpt(96, 12288, 96);
  const double unit = 2048.0 * 12288;
  const double scores = 5.0 * 96 * 2048 / 12288;
  const auto kept = [&](std::int64_t tensor, bool sequence, Recompute recompute) {
    return kept_bytes(model, hardware,
                      {.gpus = 8, .tensor = tensor, .recompute = recompute, .sequence_parallel = sequence}) /
           unit;
  };
  EXPECT_NEAR(kept(1, false, Recompute::none), 34 + scores, 1e-9);
  EXPECT_NEAR(kept(8, false, Recompute::none), 10 + 24.0 / 8 + scores / 8, 1e-9);
  EXPECT_NEAR(kept(8, true, Recompute::none), (34 + scores) / 8, 1e-9);
  EXPECT_NEAR(kept(8, false, Recompute::selective), 10 + 24.0 / 8, 1e-9);
  EXPECT_NEAR(kept(8, true, Recompute::selective), 34.0 / 8, 1e-9);
  EXPECT_NEAR(kept(8, false, Recompute::full), 2, 1e-9);
}

/// The stages of all devices have all parameters, and those of the embedding once more.
TEST(ScaleMemory, DevicesShareTheParameters) {
  const Model model = gpt(24, 2048, 16);
  Plan plan{.gpus = 32, .tensor = 4, .pipeline = 4, .virtual_stages = 3, .global_batch = 8};
  double sum = 0;
  for (std::int64_t d = 0; d < 4; ++d) sum += 4 * parameters_of_device(model, plan, d);
  EXPECT_DOUBLE_EQ(sum, static_cast<double>(model.parameters() + model.vocabulary * model.hidden));
}

}  // namespace
}  // namespace weft::scale
