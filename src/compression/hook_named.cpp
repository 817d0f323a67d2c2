#include "weft/compression/hook_named.hpp"

#include <array>
#include <charconv>

#include "core/nearest_name.hpp"
#include "weft/compression/auto_hook.hpp"
#include "weft/compression/codec_hook.hpp"
#include "weft/compression/power_sgd.hpp"

namespace weft {
namespace {

constexpr const char* power_sgd_name = "powersgd";
constexpr const char* auto_name = "auto";
constexpr const char* alternating = ":alternating";

[[noreturn]] void refuse(const std::string& name, const std::string& advice) {
  throw Error(ErrorKind::usage, text("no hook is named '", name, "'"), advice);
}

std::shared_ptr<CommHook> power_sgd_named(const std::string& name, std::string parameters,
                                          std::int64_t start_step) {
  PowerSgdOptions options{.start_step = start_step};
  if (parameters.ends_with(alternating)) {
    options.form = LowRankForm::alternating;
    parameters.resize(parameters.size() - std::string(alternating).size());
  }
  const char* const end = parameters.data() + parameters.size();
  const auto [rest, error] = std::from_chars(parameters.data(), end, options.rank);
  if (error != std::errc() || rest != end)
    refuse(name, text("give a rank, as ", power_sgd_name, ":4, or ", power_sgd_name, ":4", alternating));
  return power_sgd(options);
}

}  // namespace

std::shared_ptr<CommHook> hook_named(const std::string& name, std::int64_t start_step) {
  constexpr std::array names{"fp16",  "bf16",     "fp8-e4m3",     "fp8-e5m2", "int8",
                             "top-k", "random-k", power_sgd_name, auto_name};
  const std::string kind = name.substr(0, name.find(':'));
  if (name == auto_name) return auto_hook({.start_step = start_step});
  if (kind == auto_name)
    refuse(name, text("say ", auto_name, ", which takes no parameter; auto_hook() does"));
  if (kind == power_sgd_name) {
    const std::string parameters = kind.size() < name.size() ? name.substr(kind.size() + 1) : "";
    return power_sgd_named(name, parameters, start_step);
  }
  if (std::ranges::find(names, kind) == names.end()) {
    refuse(name,
           text("did you mean ", detail::nearest_name(names, kind), name.substr(kind.size()),
                "? Allowed are auto, powersgd:R, powersgd:R:alternating, fp16, bf16, fp8-e4m3, fp8-e5m2 and "
                "int8 (these three "
                "also with :stochastic), top-k:F and random-k:F"));
  }
  const bool is_cast = kind == "fp16" || kind == "bf16";
  const auto start = static_cast<std::uint64_t>(is_cast ? 0 : start_step);
  return codec_hook(codec_named(name),
                    {.residual = is_cast ? KeptAs::nothing : KeptAs::sixteen_bits, .start_step = start});
}

}  // namespace weft
