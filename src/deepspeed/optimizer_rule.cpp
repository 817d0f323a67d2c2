// The section "optimizer": what DeepSpeed and torch.optim understand by a type and its parameters, as weft's rule.

#include <algorithm>
#include <array>

#include "core/base/strings.hpp"
#include "deepspeed/resolving.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

using deepspeed::Config;
using deepspeed::Setting;

constexpr std::string_view type_key = "optimizer.type";
constexpr std::string_view params_prefix = "optimizer.params.";

class Params {
 public:
  explicit Params(const Config& config) : config_(config), settings_(config) {}

  double number(std::string_view name, double fallback) const {
    const std::string key = path(name);
    return settings_.is_null(key) ? fallback : settings_.number(key);
  }
  bool boolean(std::string_view name, bool fallback) const {
    const std::string key = path(name);
    return settings_.is_null(key) ? fallback : settings_.boolean(key);
  }
  std::array<double, 2> betas() const {
    const Setting* const setting = config_.find(path("betas"));
    if (setting == nullptr || setting->value == "null") return {0.9, 0.999};
    const Node pair = read_hjson("{\"betas\": " + setting->value + "\n}", "a value").members[0].value;
    const std::array<double, 2> both{pair.items[0].number, pair.items[1].number};
    for (const double beta : both) {
      if (beta < 0 || beta >= 1)
        settings_.refuse(path("betas"), text("is ", setting->value), "each is 0 or more, and below 1");
    }
    return both;
  }
  /// Refuses those that are given and are not among `names`.
  void are(std::string_view type, std::initializer_list<std::string_view> names) const {
    for (const Setting& setting : config_.settings) {
      if (!setting.key.starts_with(params_prefix) || setting.line == 0) continue;
      const std::string_view name = std::string_view(setting.key).substr(params_prefix.size());
      if (std::ranges::find(names, name) == names.end())
        settings_.refuse(setting.key, text("is no parameter of ", type), text("it has ", listed(names)));
    }
  }

 private:
  static std::string path(std::string_view name) { return text(params_prefix, name); }

  const Config& config_;
  Settings settings_;
};

/// DeepSpeed's "Adam" is AdamW unless adam_w_mode is false.
zero::Optimizer adam_rule(const Config& config, bool decouples) {
  const Params params(config);
  params.are(decouples ? "AdamW" : "Adam",
             {"lr", "betas", "eps", "weight_decay", "bias_correction", "adam_w_mode", "torch_adam", "amsgrad",
              "fp32_optimizer_states", "set_grad_none", "foreach", "fused", "capturable", "differentiable",
              "maximize"});
  const auto [beta1, beta2] = params.betas();
  const double rate = params.number("lr", 1e-3);
  const double epsilon = params.number("eps", 1e-8);
  // torch.optim.AdamW's own default; DeepSpeed's FusedAdam and DeepSpeedCPUAdam have 0.
  const bool is_torch = params.boolean("torch_adam", false);
  const double decay = params.number("weight_decay", is_torch && decouples ? 0.01 : 0);
  if (epsilon < 1e-18 || epsilon > 1)
    Settings(config).refuse("optimizer.params.eps", text("is ", epsilon), "weft's is from 1e-18 to 1");
  if (decouples) return zero::AdamW{rate, beta1, beta2, epsilon, decay};
  return zero::Adam{rate, beta1, beta2, epsilon, decay};
}

zero::Optimizer sgd_rule(const Config& config) {
  const Params params(config);
  params.are("SGD", {"lr", "momentum", "weight_decay", "dampening", "nesterov", "maximize", "foreach",
                     "fused", "differentiable"});
  const double momentum = params.number("momentum", 0);
  if (momentum >= 1)
    Settings(config).refuse("optimizer.params.momentum", text("is ", momentum), "it is below 1");
  return zero::Sgd{params.number("lr", 1e-3), momentum, params.number("weight_decay", 0)};
}

}  // namespace

zero::Optimizer optimizer_rule(const Config& config) {
  const Settings settings(config);
  if (settings.is_null(type_key))
    settings.refuse(type_key, "is left out",
                    "weft has AdamW, Adam and SGD; without the section the rule is your trainer's");
  const std::string type = settings.word(type_key);
  // As DeepSpeed: its own names in any case, those of torch.optim exactly.
  if (lowered(type) == "adamw") return adam_rule(config, true);
  if (lowered(type) == "adam") return adam_rule(config, Params(config).boolean("adam_w_mode", true));
  if (type == "SGD") return sgd_rule(config);
  constexpr std::array names{"AdamW", "Adam", "SGD"};
  const auto near = nearest_name(names, type);
  settings.refuse(type_key, text("is ", json_string(type)),
                  text("weft has AdamW, Adam and SGD", near ? text("; did you mean ", *near, "?") : ""));
}

}  // namespace weft::detail
