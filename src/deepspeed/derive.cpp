// What follows from other values: train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * ranks, of which the file
// says one or two; and what DeepSpeed does not allow together.

#include <algorithm>
#include <array>

#include "core/base/number.hpp"
#include "core/base/strings.hpp"
#include "deepspeed/resolving.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

using deepspeed::Config;
using deepspeed::Origin;
using deepspeed::Setting;

Setting& setting_of(Config& config, std::string_view key) {
  for (Setting& setting : config.settings) {
    if (setting.key == key) return setting;
  }
  throw Error(ErrorKind::internal, text("a configuration has no ", key));
}

constexpr std::array<std::string_view, 3> batch_keys{"train_batch_size", "train_micro_batch_size_per_gpu",
                                                     "gradient_accumulation_steps"};

/// "train_batch_size 10 (line 2)"
std::string said(const Setting& setting) {
  return setting.line > 0 ? text(setting.key, " ", setting.value, " (line ", setting.line, ")")
                          : text(setting.key, " ", setting.value);
}

void derive_batch(Config& config) {
  std::array<std::optional<std::int64_t>, 3> sizes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (setting_of(config, batch_keys[i]).value != "null") sizes[i] = Settings(config).integer(batch_keys[i]);
    if (sizes[i] && *sizes[i] > (std::int64_t{1} << 40))
      Settings(config).refuse(batch_keys[i], "is more than 2^40");
  }
  auto& [all, micro, steps] = sizes;
  const std::array<bool, 3> given{all.has_value(), micro.has_value(), steps.has_value()};
  if (!all && !micro)
    refuse_config(config.called, 0, "neither train_batch_size nor train_micro_batch_size_per_gpu is given",
                  "give one of them, or two of the three batch sizes");
  // The quotients are checked below: with a remainder the product is another.
  if (all && micro && !steps) steps = *all / *micro / config.ranks;
  if (!steps && (all || micro)) steps = 1;
  if (!micro) micro = *all / config.ranks / *steps;
  const double product = static_cast<double>(*micro) * static_cast<double>(*steps) * config.ranks;
  if (!all && product < 0x1p53) all = *micro * *steps * config.ranks;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (given[i]) continue;
    Setting& setting = setting_of(config, batch_keys[i]);
    setting.value = text(sizes[i].value_or(0));
    setting.origin = Origin::derived;
  }
  if (!all || *micro < 1 || *steps < 1 || static_cast<double>(*all) != product) {
    const auto size = [&](std::size_t i) { return said(setting_of(config, batch_keys[i])); };
    refuse_config(config.called, 0,
                  text(size(0), " is not ", size(1), " * ", size(2), " * ", config.ranks, " rank(s)"),
                  text("train_batch_size is a multiple of the others; give two of the three"));
  }
}

void check_precision(const Settings& settings) {
  if (settings.boolean("fp16.enabled") && settings.boolean("bf16.enabled"))
    settings.refuse("bf16.enabled", "is true, and so is fp16.enabled", "enable one of them");
  if (!settings.boolean("fp16.enabled") || settings.number("fp16.loss_scale") > 0) return;
  for (const char* const key : {"fp16.loss_scale_window", "fp16.min_loss_scale"}) {
    if (settings.integer(key) < 1)
      settings.refuse(key, text("is ", settings.integer(key)),
                      "it is above 0 where the loss scale is dynamic");
  }
}

void check_stage(const Settings& settings) {
  const std::int64_t stage = settings.integer("zero_optimization.stage");
  if (!settings.boolean("zero_optimization.compute_grad_norm") && stage != 1 && stage != 2)
    settings.refuse("zero_optimization.compute_grad_norm", text("is false in stage ", stage),
                    "DeepSpeed allows it in stages 1 and 2");
  if (settings.number("zero_optimization.offload_optimizer.ratio") < 1 && stage != 3)
    settings.refuse("zero_optimization.offload_optimizer.ratio", text("is below 1 in stage ", stage),
                    "DeepSpeed offloads a part of the state in stage 3 alone");
  if (settings.word("gradient_allreduce_op") == "sum" && stage == 3)
    settings.refuse("gradient_allreduce_op", "is sum in stage 3", "DeepSpeed allows mean there");
  for (const char* const key : {"fp16.fp16_master_weights_and_grads", "bf16.bf16_master_weights_and_grads",
                                "bf16.bf16_optimizer_states"}) {
    if (settings.boolean(key) && stage == 0)
      settings.refuse(key, "is true in stage 0", "DeepSpeed allows it in stages 1 to 3");
  }
  if (settings.boolean("bf16.bf16_optimizer_states") &&
      !settings.boolean("bf16.bf16_master_weights_and_grads"))
    settings.refuse("bf16.bf16_optimizer_states", "is true without bf16_master_weights_and_grads",
                    "enable both");
}

}  // namespace

void derive(Config& config) {
  derive_batch(config);
  const Settings settings(config);
  Setting& overlap = setting_of(config, "zero_optimization.overlap_comm");
  if (overlap.value == "null") {
    overlap.value = settings.integer("zero_optimization.stage") == 3 ? "true" : "false";
    overlap.origin = Origin::derived;
  }
  if (settings.boolean("flops_profiler.enabled") && !settings.boolean("wall_clock_breakdown")) {
    setting_of(config, "wall_clock_breakdown").value = "true";
    setting_of(config, "wall_clock_breakdown").origin = Origin::derived;
  }
  if (config.find("optimizer.type") != nullptr && !settings.is_null("optimizer.type")) {
    const std::string type = lowered(settings.word("optimizer.type"));
    constexpr std::array own{"adagrad", "adam",  "adamw", "lamb", "muadam",
                             "muadamw", "musgd", "lion",  "muon"};
    if (std::ranges::find(own, type) != own.end())
      setting_of(config, "optimizer.type").value = json_string(type);
  }
  check_precision(settings);
  check_stage(settings);
  if (settings.boolean("fp16.enabled") && settings.number("fp16.loss_scale") == 0)
    config.notices.push_back(text(
        config.called, ":", setting_of(config, "fp16.enabled").line,
        ": fp16.enabled is true: the loss scale doubles after ", settings.integer("fp16.loss_scale_window"),
        " steps without an overflow; the first time DeepSpeed waits one step more"));
}

std::string Settings::value(std::string_view key) const {
  const Setting* const setting = config_.find(key);
  return setting != nullptr ? setting->value : find_key(key)->fallback;
}

double Settings::number(std::string_view key) const {
  const std::string digits = value(key);
  if (const auto result = number_of<double>(digits)) return *result;
  throw Error(ErrorKind::internal, text(key, " is no number: ", digits));
}

std::int64_t Settings::integer(std::string_view key) const {
  const std::string digits = value(key);
  if (const auto result = number_of<std::int64_t>(digits)) return *result;
  throw Error(ErrorKind::internal, text(key, " is no whole number: ", digits));
}

std::string Settings::word(std::string_view key) const {
  return read_hjson("{\"word\": " + value(key) + "\n}", "a value").members[0].value.text;
}

bool Settings::in_file(std::string_view key) const {
  const Setting* const setting = config_.find(key);
  return setting != nullptr && setting->origin == Origin::file;
}

void Settings::refuse(std::string_view key, const std::string& why, const std::string& advice) const {
  const Setting* const setting = config_.find(key);
  refuse_config(config_.called, setting != nullptr ? setting->line : 0, text(key, " ", why), advice);
}

}  // namespace weft::detail
