#include "strategy.hpp"

#include <algorithm>
#include <optional>

#include "weft/compression/auto_hook.hpp"
#include "weft/compression/hook_named.hpp"

namespace weft::scaling {
namespace {

constexpr std::string_view ddp_with = "ddp+";
constexpr const char* chosen = "auto";

/// As hook_named() takes it; none where gradients travel as they are.
std::optional<std::string> code_of(const std::string& strategy) {
  if (strategy == chosen) return strategy;
  if (!strategy.starts_with(ddp_with)) return std::nullopt;
  return strategy.substr(ddp_with.size());
}

bool is_chosen(const Options& options) {
  return std::ranges::find(options.strategies, chosen) != options.strategies.end();
}

std::int64_t start_step(const Options& options) {
  return options.start_step.value_or(std::min<std::int64_t>(5, options.steps / 4));
}

}  // namespace

bool is_coded(const std::string& strategy) {
  return code_of(strategy).has_value();
}

std::string allowed_strategies() {
  return "nocomm, ddp, ddp+fp16, ddp+bf16, ddp+powersgd:RANK (and powersgd:RANK:alternating), ddp+CODEC "
         "(fp8-e4m3, fp8-e5m2, int8, top-k:F, random-k:F), auto";
}

void check_strategy(const std::string& strategy) {
  if (strategy == "nocomm" || strategy == "ddp") return;
  const std::optional<std::string> code = code_of(strategy);
  if (!code || strategy == text(ddp_with, chosen)) {
    throw Error(ErrorKind::usage, text("--strategies names '", strategy, "'"),
                "allowed are " + allowed_strategies());
  }
  try {
    (void)hook_named(*code);
  } catch (const Error& error) {
    throw Error(ErrorKind::usage, text("--strategies names '", strategy, "'"), error.what());
  }
}

std::shared_ptr<CommHook> hook_of(const std::string& strategy, const Options& options) {
  const std::optional<std::string> code = code_of(strategy);
  return code ? hook_named(*code, start_step(options)) : nullptr;
}

std::int64_t first_counted(const Options& options) {
  const std::int64_t warm_up = std::min<std::int64_t>(3, options.steps / 4);
  const bool late = std::ranges::any_of(options.strategies, is_coded);
  const std::int64_t begun = late ? std::min(start_step(options), options.steps / 4) : 0;
  return warm_up + (is_chosen(options) ? std::max(begun, AutoHook::steps_before) : begun);
}

void check_steps(const Options& options) {
  if (!is_chosen(options) || options.steps > first_counted(options)) return;
  throw Error(ErrorKind::usage,
              text("--steps ", options.steps, " with the strategy ", chosen, ", which chooses after ",
                   AutoHook::steps_before),
              "steps before do not count for times: give --steps 10 or more");
}

}  // namespace weft::scaling
