// What parse() refuses, and what it names.

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "weft/deepspeed/config.hpp"

namespace weft::deepspeed {
namespace {

void expect_refused(const std::string& text, std::initializer_list<std::string> parts, int ranks = 2) {
  test::expect_error(ErrorKind::usage, parts, [&] { (void)parse(text, ranks, "ds.json"); });
}

TEST(DeepSpeedRefusals, OfBatchSizes) {
  expect_refused("{}", {"ds.json: neither train_batch_size nor train_micro_batch_size_per_gpu is given"});
  expect_refused("{gradient_accumulation_steps: 2}", {"neither train_batch_size nor"});
  expect_refused("{\n train_batch_size: 10\n train_micro_batch_size_per_gpu: 3\n}",
                 {"ds.json: train_batch_size 10 (line 2) is not train_micro_batch_size_per_gpu 3 (line 3) * "
                  "gradient_accumulation_steps 1 * 2 rank(s)"});
  expect_refused("{train_batch_size: 1}",
                 {"train_batch_size 1 (line 1) is not train_micro_batch_size_per_gpu 0"});
  expect_refused("{train_batch_size: 0}", {"ds.json:1: train_batch_size is 0; it is a whole number above 0"});
  expect_refused("{train_batch_size: \"32\"}", {"train_batch_size is \"32\"", "a whole number"});
  expect_refused("{train_batch_size: 9e18}", {"is more than 2^40"});
  expect_refused("{train_micro_batch_size_per_gpu: 1e12, gradient_accumulation_steps: 1e12}",
                 {"train_batch_size 0 is not"});
  expect_refused("{train_batch_size: 4}", {"a job of 0 ranks"}, 0);
}

TEST(DeepSpeedRefusals, OfAutoWhereHuggingFaceFillsItIn) {
  expect_refused(
      "{train_batch_size: \"auto\", gradient_clipping: \"auto\"\n optimizer: {\"type\": \"AdamW\", params: "
      "{lr: \"auto\"}}\n}",
      {"\"auto\" is not DeepSpeed's here: train_batch_size (line 1), gradient_clipping (line 1), "
       "optimizer.params.lr (line 2)",
       "Hugging Face's Trainer"});
}

TEST(DeepSpeedRefusals, OfUnknownKeys) {
  expect_refused("{train_batch_sise: 4}",
                 {"ds.json:1: \"train_batch_sise\" is no key of DeepSpeed; did you mean train_batch_size?"});
  expect_refused("{overlap_comm: true}", {"did you mean zero_optimization.overlap_comm?"});
  expect_refused("{qwertyuiop: 1}",
                 {"\"qwertyuiop\" is no key of DeepSpeed; docs/deepspeed.md has all keys"});
  expect_refused("{bfloat16: {enabeld: 1}}",
                 {"\"bfloat16.enabeld\" is no key of DeepSpeed; did you mean enabled?"});
  expect_refused("{\"a\\nb\": 1}", {"\"a\\u000ab\" is no key"});
}

TEST(DeepSpeedRefusals, OfAllUnknownKeysAtOnceWithTheirPlaces) {
  expect_refused(
      "{bf16: {enabled: true,\nloss_scale: 0,\nhysteresis: 2},\nfp8: {enabled: true, what: 1},\n"
      "stage: 3, fp16: {train_batch_size: 8}}",
      {"ds.json:2: 5 keys are none of DeepSpeed: \"bf16.loss_scale\" (line 2): did you mean fp16.loss_scale? "
       "That is "
       "where DeepSpeed has it; \"bf16.hysteresis\" (line 3): did you mean fp16.hysteresis?",
       "\"fp8\" (line 4)", "\"stage\" (line 5): did you mean zero_optimization.stage?",
       "\"fp16.train_batch_size\" (line 5): did you mean train_batch_size? That is where DeepSpeed has it"});
  // Also where a value is wrong that stands before them.
  expect_refused("{train_batch_size: \"x\", nothing_like_it: 1}",
                 {"\"nothing_like_it\" is no key of DeepSpeed"});
}

TEST(DeepSpeedRefusals, ButNotOfCommentsWhereDeepSpeedChecksNoKeys) {
  const deepspeed::Config config =
      deepspeed::parse("{_comment: \"a\", \"//\": 1, train_batch_size: 4}", 1, "ds.json");
  EXPECT_EQ(config.notices.size(), 2U);
  EXPECT_EQ(config.notices.at(0), "ds.json:1: _comment is taken for a comment");
  expect_refused("{zero_optimization: {_comment: \"a\"}}",
                 {"\"zero_optimization._comment\" is no key of DeepSpeed"});
}

TEST(DeepSpeedRefusals, OfValues) {
  expect_refused("{\n\nzero_optimization: {\nstage: 4\n}\n}",
                 {"ds.json:4: zero_optimization.stage is 4; it is a whole number from 0 to 3"});
  expect_refused("{zero_optimization: {stage: true}}", {"zero_optimization.stage is true"});
  expect_refused("{zero_optimization: {reduce_bucket_size: 1.5}}",
                 {"reduce_bucket_size is 1.5", "a whole number above 0"});
  expect_refused("{zero_optimization: {offload_param: {device: \"gpu\"}}}",
                 {"device is \"gpu\"", "one of none, cpu, nvme; did you mean cpu?"});
  expect_refused("{zero_optimization: 2}", {"zero_optimization is 2", "an object"});
  expect_refused("{gradient_clipping: -1}", {"gradient_clipping is -1", "a number of 0 or more"});
  expect_refused("{wall_clock_breakdown: \"false\"}", {"wall_clock_breakdown is \"false\"", "true or false"});
  expect_refused("{elasticity: {enabled: true}}", {"elasticity is a key that DeepSpeed has removed"});
  expect_refused("{steps_per_print: \"" + std::string(200, 'x') + "\"}", {"xxx...; it is a whole number"});
}

TEST(DeepSpeedRefusals, OfTheSameKeyTwice) {
  expect_refused("{bf16: {enabled: true}\n bfloat16: {enabled: true}}",
                 {"ds.json:2: bfloat16 and bf16 (line 1) are the same; give one"});
  expect_refused(
      "{zero_optimization: {prefetch_bucket_size: 1, stage3_prefetch_bucket_size: 1}}",
      {"stage3_prefetch_bucket_size and zero_optimization.prefetch_bucket_size (line 1) are the same"});
  expect_refused("{zero_optimization: {stage: 1, cpu_offload: false, offload_optimizer: {device: \"cpu\"}}}",
                 {"offload_optimizer and zero_optimization.cpu_offload (line 1) are the same"});
}

TEST(DeepSpeedRefusals, OfFilesThatCannotBeRead) {
  test::expect_error(ErrorKind::usage, {"/no/such/file.json", "No such file"},
                     [] { (void)read("/no/such/file.json", 1); });
  expect_refused(std::string((1 << 20) + 1, ' '), {"more than 1048576 bytes"});
}

bool any_has(const std::vector<std::string>& notices, const std::string& part) {
  for (const std::string& notice : notices) {
    if (notice.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(DeepSpeedNotices, NameEachOnce) {
  const Config config = parse(R"({train_batch_size: 4
    steps_per_print: 10
    wall_clock_breakdown: true
    zero_optimization: {stage: 3, overlap_comm: false, contiguous_gradients: true, cpu_offload: true, prefetch_bucket_size: 10
      zero_hpz_partition_size: 2, stage3_max_live_parameters: 5, round_robin_gradients: "auto"}
    scheduler: {type: WarmupLR
    }
    })",
                              2, "ds.json");
  EXPECT_TRUE(any_has(config.notices,
                      "ds.json: without effect in weft: zero_optimization.stage3_max_live_parameters (line "
                      "5), steps_per_print (line 2), wall_clock_breakdown (line 3)"));
  EXPECT_TRUE(
      any_has(config.notices, "ds.json:4: zero_optimization.overlap_comm is false: every stage overlaps"));
  EXPECT_TRUE(any_has(config.notices,
                      "ds.json:4: zero_optimization.cpu_offload is deprecated: write offload_optimizer"));
  EXPECT_TRUE(any_has(config.notices, "zero_hpz_partition_size is 2: ShardedOptions::shard_ranks"));
  EXPECT_TRUE(any_has(config.notices, "scheduler.type is \"WarmupLR\": weft has no schedulers"));
  EXPECT_EQ(config.notices.size(), 5U) << "what weft does as the file says is not named";
  EXPECT_TRUE(parse("{train_batch_size: 4}", 2).notices.empty());
}

TEST(DeepSpeedNotices, SayHowTheLossScaleDiffers) {
  const Config dynamic = parse("{train_batch_size: 4, fp16: {enabled: true}}", 1, "ds.json");
  EXPECT_TRUE(any_has(dynamic.notices, "ds.json:1: fp16.enabled is true: the loss scale doubles"));
  EXPECT_TRUE(
      parse("{train_batch_size: 4, fp16: {enabled: true, loss_scale: 8}}", 1, "ds.json").notices.empty());
}

}  // namespace
}  // namespace weft::deepspeed
