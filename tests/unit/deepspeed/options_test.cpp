#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.hpp"
#include "weft/deepspeed/config.hpp"

namespace weft::deepspeed {
namespace {

Options options_of(const std::string& more, int ranks = 8) {
  return options(
      parse("{train_batch_size: 64" + (more.empty() ? "" : ", " + more) + "\n}", ranks, "ds.json"));
}

TEST(DeepSpeedOptions, AreWeftsWhereTheFileSaysNothing) {
  const Options options = options_of("");
  EXPECT_EQ(options.train_batch_size, 64);
  EXPECT_EQ(options.train_micro_batch_size_per_gpu, 8);
  EXPECT_EQ(options.gradient_accumulation_steps, 1);
  EXPECT_EQ(options.dtype, DataType::f32);
  EXPECT_EQ(options.sharding.stage, 0);
  EXPECT_EQ(options.sharding.bucket_bytes, std::nullopt) << "not DeepSpeed's 5e8 elements";
  EXPECT_EQ(options.sharding.hook, nullptr);
  EXPECT_EQ(options.sharding.unused, Unused::refuse);
  EXPECT_EQ(options.stepping.clip_norm, 1.0) << "DeepSpeed's default";
  EXPECT_EQ(options.stepping.loss_scale, std::nullopt);
  EXPECT_FALSE(options.optimizer);
}

TEST(DeepSpeedOptions, OfStage3) {
  const Options options = options_of(R"(bf16: {enabled: true}, communication_data_type: fp32
    zero_optimization: {stage: 3, reduce_bucket_size: 1e6, stage3_prefetch_bucket_size: 2e6, stage3_param_persistence_threshold: 100
      zero_hpz_partition_size: 4, offload_param: {device: "cpu"}, offload_optimizer: {device: "nvme", nvme_path: "/scratch"}})");
  EXPECT_EQ(options.dtype, DataType::bf16);
  EXPECT_EQ(options.sharding.stage, 3);
  EXPECT_EQ(options.sharding.bucket_bytes, 2'000'000U) << "elements of 2 bytes";
  EXPECT_EQ(options.sharding.prefetch_bytes, 4'000'000U);
  EXPECT_EQ(options.sharding.whole_below, 100);
  EXPECT_EQ(options.sharding.shard_ranks, 4);
  EXPECT_TRUE(options.sharding.offload_parameters);
  EXPECT_TRUE(options.sharding.offload_gradients);
  EXPECT_EQ(options.stepping.offload.share, 1.0);
  EXPECT_EQ(options.stepping.offload.directory, "/scratch");
  EXPECT_NE(options.sharding.hook, nullptr) << "sent as f32";
  EXPECT_EQ(options.stepping.non_finite, zero::NonFinite::skip_step);
}

TEST(DeepSpeedOptions, ClippingIsLeftOutForZero) {
  EXPECT_EQ(options_of("gradient_clipping: 0").stepping.clip_norm, std::nullopt);
  EXPECT_EQ(options_of("gradient_clipping: 0.5").stepping.clip_norm, 0.5);
}

TEST(DeepSpeedOptions, UnusedParametersAreFoundWhereTheFileAsksForIt) {
  EXPECT_EQ(options_of("zero_optimization: {stage: 1, ignore_unused_parameters: true}").sharding.unused,
            Unused::find);
  EXPECT_EQ(options_of("zero_optimization: {stage: 1}").sharding.unused, Unused::refuse);
  EXPECT_EQ(options_of("zero_optimization: {stage: 2, ignore_unused_parameters: true}").sharding.unused,
            Unused::refuse);
}

TEST(DeepSpeedOptions, LossScaleIsDynamicOrFixed) {
  const auto dynamic = options_of(
                           "fp16: {enabled: true, initial_scale_power: 10, loss_scale_window: 7, hysteresis: "
                           "3, min_loss_scale: 4}")
                           .stepping.loss_scale;
  ASSERT_TRUE(dynamic);
  EXPECT_EQ(dynamic->initial, 1024);
  EXPECT_EQ(dynamic->growth_interval, 7);
  EXPECT_EQ(dynamic->hysteresis, 3);
  EXPECT_EQ(dynamic->minimum, 4);
  const auto fixed = options_of("fp16: {enabled: true, loss_scale: 128}").stepping.loss_scale;
  ASSERT_TRUE(fixed);
  zero::LossScaler scaler(*fixed);
  for (int i = 0; i < 100; ++i) scaler.update(i % 3 != 0);
  EXPECT_EQ(scaler.scale(), 128) << "it neither falls nor rises";
}

template <class Rule>
Rule rule_of(const std::string& section) {
  const auto rule = options_of("optimizer: {" + section + "}").optimizer;
  return std::get<Rule>(rule.value());
}

TEST(DeepSpeedOptions, AdamIsAdamWUnlessAdamWModeIsFalse) {
  EXPECT_EQ(rule_of<zero::AdamW>(R"("type": "Adam")").weight_decay, 0) << "FusedAdam's default";
  EXPECT_EQ(rule_of<zero::AdamW>(R"("type": "adamw", params: {torch_adam: true})").weight_decay, 0.01)
      << "torch's";
  EXPECT_EQ(
      rule_of<zero::Adam>(R"("type": "Adam", params: {adam_w_mode: false, torch_adam: true})").weight_decay,
      0);
  EXPECT_EQ(rule_of<zero::AdamW>(R"("type": "AdamW", params: {adam_w_mode: false})").beta2, 0.999)
      << "the name wins";
  const auto adam = rule_of<zero::Adam>(
      R"("type": "Adam", params: {adam_w_mode: false, lr: 2e-4, betas: [0.8, 0.9], eps: 1e-6, weight_decay: 0.1})");
  EXPECT_EQ(adam.learning_rate, 2e-4);
  EXPECT_EQ(adam.beta1, 0.8);
  EXPECT_EQ(adam.beta2, 0.9);
  EXPECT_EQ(adam.epsilon, 1e-6);
  EXPECT_EQ(adam.weight_decay, 0.1);
  EXPECT_EQ(rule_of<zero::Sgd>(R"("type": "SGD", params: {lr: 0.1, momentum: 0.9})").momentum, 0.9);
}

void expect_not_in_weft(const std::string& more, std::initializer_list<std::string> parts, int ranks = 8) {
  test::expect_error(ErrorKind::usage, parts, [&] { (void)options_of(more, ranks); });
}

TEST(DeepSpeedOptions, RefuseWhatWeftDoesNotHave) {
  expect_not_in_weft("optimizer: {\"type\": \"Lion\"}",
                     {"ds.json:1: optimizer.type is \"lion\"", "weft has AdamW, Adam and SGD"});
  expect_not_in_weft("optimizer: {\"type\": \"SDG\"}", {"optimizer.type is \"SDG\"", "did you mean SGD?"});
  expect_not_in_weft("optimizer: {params: {lr: 1}}", {"optimizer.type is left out"});
  expect_not_in_weft("optimizer: {\"type\": \"SGD\", params: {betas: [0, 0]}}",
                     {"optimizer.params.betas is no parameter of SGD", "momentum"});
  expect_not_in_weft("optimizer: {\"type\": \"Adam\", params: {betas: [0.9, 1]}}",
                     {"optimizer.params.betas is [0.9, 1]", "below 1"});
  expect_not_in_weft("optimizer: {\"type\": \"Adam\", params: {amsgrad: true}}",
                     {"optimizer.params.amsgrad is true", "weft has false alone"});
  expect_not_in_weft("optimizer: {\"type\": \"Adam\", params: {eps: 2}}",
                     {"optimizer.params.eps is 2", "1e-18 to 1"});
  expect_not_in_weft("optimizer: {\"type\": \"SGD\", params: {momentum: 1}}",
                     {"optimizer.params.momentum is 1", "below 1"});
  expect_not_in_weft("fp16: {enabled: true, consecutive_hysteresis: true}",
                     {"fp16.consecutive_hysteresis is true"});
  expect_not_in_weft("fp16: {enabled: true, initial_scale_power: 200}",
                     {"fp16.initial_scale_power is 200", "-126 to 127"});
  expect_not_in_weft("fp16: {enabled: true, initial_scale_power: 1, min_loss_scale: 4}",
                     {"fp16.min_loss_scale is 4", "at most 2^initial_scale_power, which is 2"});
  expect_not_in_weft("fp16: {enabled: true, hysteresis: 0}", {"fp16.hysteresis is 0"});
  expect_not_in_weft("data_types: {grad_accum_dtype: \"bf16\"}",
                     {"data_types.grad_accum_dtype is bf16", "say f32"});
  expect_not_in_weft("data_types: {param_dtype: \"int8\"}",
                     {"data_types.param_dtype is \"int8\"", "fp32, fp16 or bf16"});
  expect_not_in_weft("gradient_allreduce_op: \"sum\"", {"gradient_allreduce_op is \"sum\"", "averaged"});
  expect_not_in_weft("zero_optimization: {stage: 2, offload_param: {device: \"cpu\"}}",
                     {"offload_param.device is cpu in stage 2", "stage 3"});
  expect_not_in_weft("zero_optimization: {stage: 3, offload_param: {device: \"nvme\"}}",
                     {"offload_param.device is nvme", "say cpu"});
  expect_not_in_weft("zero_optimization: {offload_optimizer: {device: \"cpu\"}}",
                     {"offload_optimizer.device is cpu in stage 0"});
  expect_not_in_weft("zero_optimization: {stage: 1, offload_optimizer: {device: \"nvme\"}}",
                     {"nvme without nvme_path"});
  expect_not_in_weft("zero_optimization: {stage: 3, zero_hpz_partition_size: 3}",
                     {"zero_hpz_partition_size is 3", "does not divide the 8 ranks"});
  expect_not_in_weft("zero_optimization: {stage: 2, mics_shard_size: 4}",
                     {"mics_shard_size is 4 in stage 2"});
  expect_not_in_weft("zero_optimization: {stage: 3, mics_shard_size: 4, zero_hpz_partition_size: 2}",
                     {"both given"});
  expect_not_in_weft("zero_optimization: {stage: 3, zero_quantized_weights: true}",
                     {"zero_quantized_weights is true", "weft has false alone"});
  expect_not_in_weft("zero_optimization: {zenflow: {topk_ratio: 0.1}}", {"zero_optimization.zenflow is"});
  expect_not_in_weft("torch_autocast: {enabled: true}", {"torch_autocast.enabled is true"});
  expect_not_in_weft("sequence_parallel_size: 2", {"sequence_parallel_size is 2"});
}

}  // namespace
}  // namespace weft::deepspeed
