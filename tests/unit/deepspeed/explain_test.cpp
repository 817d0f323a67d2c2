#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "weft/deepspeed/config.hpp"

namespace weft::deepspeed {
namespace {

/// The line of a key, with one blank in place of many.
std::string row(const std::string& table, const std::string& key) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + " ")) continue;
    std::string words;
    std::ranges::unique_copy(line, std::back_inserter(words),
                             [](char a, char b) { return a == ' ' && b == ' '; });
    return words;
  }
  return "";
}

TEST(DeepSpeedExplained, EachValueHasItsSource) {
  const std::string table = explain(parse(R"({
  train_batch_size: 16
  bfloat16: {enabled: true}
  zero_optimization: {
    stage: 2
    reduce_bucket_size: "auto"
    prefetch_bucket_size: 1e6
    cpu_offload: true
  }
})",
                                          4, "ds.json"));
  EXPECT_EQ(row(table, "key"), "key value source in weft");
  EXPECT_EQ(row(table, "train_batch_size").substr(0, 32), "train_batch_size 16 ds.json:2 se");
  EXPECT_NE(row(table, "train_micro_batch_size_per_gpu").find(" 4 from the others "), std::string::npos);
  EXPECT_NE(row(table, "gradient_clipping").find(" 1.0 default ShardedOptimizerOptions::clip_norm"),
            std::string::npos);
  EXPECT_NE(row(table, "bf16.enabled").find(" true ds.json:3 as bfloat16.enabled "), std::string::npos);
  EXPECT_NE(row(table, "zero_optimization.reduce_bucket_size").find(" 500000000 ds.json:6, auto: default "),
            std::string::npos);
  EXPECT_NE(row(table, "zero_optimization.stage3_prefetch_bucket_size")
                .find(" 1000000 ds.json:7 as zero_optimization.prefetch_bucket_size "),
            std::string::npos);
  EXPECT_NE(row(table, "zero_optimization.offload_optimizer.device")
                .find(" \"cpu\" ds.json:8 as zero_optimization.cpu_offload "),
            std::string::npos);
  EXPECT_NE(row(table, "zero_optimization.overlap_comm").find(" false from the others always true"),
            std::string::npos);
  EXPECT_NE(row(table, "zero_optimization.offload_param").find(" null default "), std::string::npos);
  EXPECT_EQ(row(table, "zero_optimization.offload_param.device"), "");
  EXPECT_EQ(table.find("weft refuses it"), std::string::npos);
}

TEST(DeepSpeedExplained, WhatWeftRefusesIsSaidBelow) {
  const std::string table =
      explain(parse("{train_batch_size: 1, optimizer: {\"type\": \"Lion\"}}", 1, "ds.json"));
  EXPECT_NE(table.find("\nweft refuses it: ds.json:1: optimizer.type is \"lion\""), std::string::npos);
}

}  // namespace
}  // namespace weft::deepspeed
