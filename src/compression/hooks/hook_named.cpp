// Codecs and hooks by the names that command lines use: "int8:stochastic",
// "top-k:0.01", "powersgd:4", "auto".

#include "weft/compression/hook_named.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/base/strings.hpp"
#include "weft/compression/auto_hook.hpp"
#include "weft/compression/codec.hpp"
#include "weft/compression/codec_hook.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

constexpr std::array codec_names{"fp16", "bf16", "fp8-e4m3", "fp8-e5m2", "int8", "top-k", "random-k"};
constexpr const char* allowed_codecs =
    "fp16, bf16, fp8-e4m3, fp8-e5m2 and int8 (these three also with :stochastic), top-k:F and random-k:F "
    "with a fraction 0 < F <= 1, as top-k:0.01";

[[noreturn]] void refuse_codec(const std::string& problem, const std::string& advice) {
  throw Error(ErrorKind::usage, problem,
              text(advice, advice.empty() ? "" : "; ", "allowed are ", allowed_codecs));
}

Rounding rounding_of(const std::string& name, const std::string& codec,
                     const std::optional<std::string>& parameter) {
  constexpr std::array roundings{"nearest", "stochastic"};
  if (!parameter || *parameter == roundings[0]) return Rounding::nearest;
  if (*parameter == roundings[1]) return Rounding::stochastic;
  const auto near = detail::nearest_name(roundings, *parameter);
  refuse_codec(text("codec '", name, "': ", codec, " has no rounding '", *parameter, "'"),
               near ? text("did you mean ", codec, ":", *near, "?") : "");
}

double fraction_of(const std::string& name, const std::string& codec,
                   const std::optional<std::string>& parameter) {
  double fraction = 0;
  const std::string digits = parameter.value_or("");
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), fraction);
  if (error == std::errc() && end == digits.data() + digits.size()) return fraction;
  refuse_codec(text("codec '", name, "': '", digits, "' is not a fraction"),
               text("give one, as ", codec, ":0.01"));
}

constexpr const char* power_sgd_name = "powersgd";
constexpr const char* auto_name = "auto";
constexpr const char* alternating = ":alternating";

[[noreturn]] void refuse_hook(const std::string& name, const std::string& advice) {
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
    refuse_hook(name, text("give a rank, as ", power_sgd_name, ":4, or ", power_sgd_name, ":4", alternating));
  return power_sgd(options);
}

}  // namespace

std::shared_ptr<const Codec> codec_named(const std::string& name) {
  const std::size_t colon = name.find(':');
  const std::string codec = name.substr(0, colon);
  std::optional<std::string> parameter;
  if (colon != std::string::npos) parameter = name.substr(colon + 1);

  if (codec == "top-k") return top_k_codec(fraction_of(name, codec, parameter));
  if (codec == "random-k") return random_k_codec(fraction_of(name, codec, parameter));
  if (codec == "fp8-e4m3") return fp8_codec(Fp8::e4m3, rounding_of(name, codec, parameter));
  if (codec == "fp8-e5m2") return fp8_codec(Fp8::e5m2, rounding_of(name, codec, parameter));
  if (codec == "int8") return int8_codec(rounding_of(name, codec, parameter));
  if (std::ranges::find(codec_names, codec) == codec_names.end()) {
    const auto near = detail::nearest_name(codec_names, codec);
    refuse_codec(text("no codec is named '", name, "'"),
                 near ? text("did you mean ", *near, parameter ? ":" : "", parameter.value_or(""), "?") : "");
  }
  if (parameter)
    refuse_codec(text("codec '", name, "': ", codec, " takes no parameter"), text("say ", codec));
  return codec == "fp16" ? fp16_codec() : bf16_codec();
}

std::shared_ptr<CommHook> hook_named(const std::string& name, std::int64_t start_step) {
  constexpr std::array names{"fp16",  "bf16",     "fp8-e4m3",     "fp8-e5m2", "int8",
                             "top-k", "random-k", power_sgd_name, auto_name};
  const std::string kind = name.substr(0, name.find(':'));
  if (name == auto_name) return auto_hook({.start_step = start_step});
  if (kind == auto_name) refuse_hook(name, text("say ", auto_name, ", which takes no parameter"));
  if (kind == power_sgd_name) {
    const std::string parameters = kind.size() < name.size() ? name.substr(kind.size() + 1) : "";
    return power_sgd_named(name, parameters, start_step);
  }
  if (std::ranges::find(names, kind) == names.end()) {
    const auto near = detail::nearest_name(names, kind);
    refuse_hook(name,
                text(near ? text("did you mean ", *near, name.substr(kind.size()), "? Allowed") : "allowed",
                     " are auto, powersgd:R, powersgd:R:alternating, fp16, bf16, fp8-e4m3, fp8-e5m2 and "
                     "int8 (these three also with :stochastic), top-k:F and random-k:F"));
  }
  const bool is_cast = kind == "fp16" || kind == "bf16";
  const auto start = static_cast<std::uint64_t>(is_cast ? 0 : start_step);
  return codec_hook(codec_named(name),
                    {.residual = is_cast ? KeptAs::nothing : KeptAs::sixteen_bits, .start_step = start});
}

}  // namespace weft
