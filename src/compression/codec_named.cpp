#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/nearest_name.hpp"
#include "weft/compression/codec.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

constexpr std::array names{"fp16", "bf16", "fp8-e4m3", "fp8-e5m2", "int8", "top-k", "random-k"};
constexpr const char* allowed =
    "fp16, bf16, fp8-e4m3, fp8-e5m2 and int8 (these three also with :stochastic), top-k:F and random-k:F "
    "with a "
    "fraction 0 < F <= 1, as top-k:0.01";

[[noreturn]] void refuse(const std::string& problem, const std::string& advice) {
  throw Error(ErrorKind::usage, problem, text(advice, "; allowed are ", allowed));
}

Rounding rounding_of(const std::string& name, const std::string& codec,
                     const std::optional<std::string>& parameter) {
  constexpr std::array roundings{"nearest", "stochastic"};
  if (!parameter || *parameter == roundings[0]) return Rounding::nearest;
  if (*parameter == roundings[1]) return Rounding::stochastic;
  refuse(text("codec '", name, "': ", codec, " has no rounding '", *parameter, "'"),
         text("did you mean ", codec, ":", detail::nearest_name(roundings, *parameter), "?"));
}

double fraction_of(const std::string& name, const std::string& codec,
                   const std::optional<std::string>& parameter) {
  double fraction = 0;
  const std::string digits = parameter.value_or("");
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), fraction);
  if (error == std::errc() && end == digits.data() + digits.size()) return fraction;
  refuse(text("codec '", name, "': '", digits, "' is no fraction"), text("give one, as ", codec, ":0.01"));
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
  if (std::ranges::find(names, codec) == names.end()) {
    refuse(text("no codec is named '", name, "'"), text("did you mean ", detail::nearest_name(names, codec),
                                                        parameter ? ":" : "", parameter.value_or(""), "?"));
  }
  if (parameter) refuse(text("codec '", name, "': ", codec, " takes no parameter"), text("say ", codec));
  return codec == "fp16" ? fp16_codec() : bf16_codec();
}

}  // namespace weft
