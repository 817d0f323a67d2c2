// Seconds of kernels and collectives, beside their definitions.

#include "weft-plan/scale/kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "weft-plan/scale/collectives.hpp"

namespace weft::scale {
namespace {

Hardware plain() {
  Hardware h;
  h.bf16 = 100e12;
  h.multiprocessors = 100;
  h.memory_rate = 1e12;
  h.attention = 50e12;
  h.gpus_per_node = 8;
  h.node = {100e9, 1e-6, 1};
  h.network = {10e9, 10e-6, 1};
  h.default_software = "megatron-lm-2021";
  return h;
}

TEST(ScaleKernels, AProductTakesWholeWavesOfTiles) {
  // 100 tiles of 256 x 128 are one wave; 101 are two.
  const double one = seconds(plain(), {.m = 2560, .n = 1280, .k = 4096});
  EXPECT_NEAR(one, 100 * 256.0 * 128 * 2 * (4096 + 64) / 100e12, 1e-12);
  const double more = seconds(plain(), {.m = 2560, .n = 1281, .k = 4096});
  // 420 tiles of 128 x 64 are five waves, of a quarter of the size.
  EXPECT_NEAR(more, 500 * 128.0 * 64 * 2 * (4096 + 64) / (0.9025 * 100e12), 1e-12);
  EXPECT_GT(more, 1.3 * one);
}

TEST(ScaleKernels, AThinProductTakesWhatItsBytesTake) {
  const double thin = seconds(plain(), {.m = 65536, .n = 65536, .k = 8});
  EXPECT_NEAR(thin, 2 * (65536.0 * 8 * 2 + 65536.0 * 65536) / 1e12, 1e-9);
}

TEST(ScaleKernels, WhatRunsBesideIsHiddenButForItsMultiprocessors) {
  Hardware h = plain();
  h.communication_blocks = 10;
  EXPECT_DOUBLE_EQ(exposed(h, 1, 4), 0.1);
  EXPECT_DOUBLE_EQ(exposed(h, 6, 4), 2 + 0.4);
}

TEST(ScaleCollectives, RingsOfANodeAndBetweenNodes) {
  const Hardware h = plain();
  const Group within = group_of(h, {.ranks = 8, .stride = 1});
  EXPECT_EQ(within.nodes, 1);
  EXPECT_NEAR(all_gather(h, within, 8e9), 7 * 1e-6 + 7.0 / 8 * 8e9 / 100e9, 1e-12);
  // One rank in each node has one port; eight share a ring over eight ports.
  const Group thin = group_of(h, {.ranks = 4, .stride = 8});
  EXPECT_EQ(thin.nodes, 4);
  EXPECT_NEAR(all_gather(h, thin, 4e9), 4 * 10e-6 + 3.0 / 4 * 4e9 / 10e9, 1e-12);
  const Group wide = group_of(h, {.ranks = 32, .stride = 1});
  EXPECT_EQ(wide.nodes, 4);
  EXPECT_DOUBLE_EQ(wide.rate, 80e9);
  EXPECT_EQ(all_gather(h, group_of(h, {.ranks = 1, .stride = 8}), 1e9), 0);
}

TEST(ScaleCollectives, SmallSumsOverManyNodesTakeATree) {
  const Hardware h = plain();
  const Group many = group_of(h, {.ranks = 1024, .stride = 8});
  EXPECT_NEAR(all_reduce(h, many, 1e3), 2 * 10 * 10e-6 + 2e3 / 10e9, 1e-12);
  EXPECT_NEAR(all_reduce(h, many, 1e12), 2 * 1024 * 10e-6 + 2 * 1023.0 / 1024 * 1e12 / 10e9, 1e-6);
}

}  // namespace
}  // namespace weft::scale
