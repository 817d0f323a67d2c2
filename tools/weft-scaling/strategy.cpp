#include "strategy.hpp"

#include <algorithm>
#include <array>

#include "weft/compression/hook_named.hpp"

namespace weft::scaling {
namespace {

constexpr std::string_view ddp_with = "ddp+";

bool is_coded(const std::string& strategy) {
  return strategy.starts_with(ddp_with);
}

std::int64_t start_step(const Options& options) {
  return options.start_step.value_or(std::min<std::int64_t>(5, options.steps / 4));
}

}  // namespace

std::string allowed_strategies() {
  return "nocomm, ddp, ddp+fp16, ddp+bf16, ddp+powersgd:RANK (and powersgd:RANK:alternating), ddp+CODEC "
         "(fp8-e4m3, "
         "fp8-e5m2, int8, top-k:F, random-k:F)";
}

void check_strategy(const std::string& strategy) {
  if (strategy == "nocomm" || strategy == "ddp") return;
  if (!is_coded(strategy)) {
    throw Error(ErrorKind::usage, text("--strategies names '", strategy, "'"),
                "allowed are " + allowed_strategies());
  }
  try {
    (void)hook_named(strategy.substr(ddp_with.size()));
  } catch (const Error& error) {
    throw Error(ErrorKind::usage, text("--strategies names '", strategy, "'"), error.what());
  }
}

std::shared_ptr<CommHook> hook_of(const std::string& strategy, const Options& options) {
  if (!is_coded(strategy)) return nullptr;
  return hook_named(strategy.substr(ddp_with.size()), start_step(options));
}

std::int64_t first_counted(const Options& options) {
  const std::int64_t warm_up = std::min<std::int64_t>(3, options.steps / 4);
  const bool late = std::ranges::any_of(options.strategies, is_coded);
  return warm_up + (late ? std::min(start_step(options), options.steps / 4) : 0);
}

}  // namespace weft::scaling
