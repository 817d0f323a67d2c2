// Codecs and hooks by the names that command lines use: "int8:stochastic",
// "top-k:0.01", "powersgd:4", "auto".

#include "weft/compression/hook_named.hpp"

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "compression/codecs/codec_table.hpp"
#include "core/base/number.hpp"
#include "core/base/strings.hpp"
#include "weft/compression/auto_hook.hpp"
#include "weft/compression/codec.hpp"
#include "weft/compression/codec_hook.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

[[noreturn]] void refuse_codec(const std::string& problem, const std::string& advice) {
  throw Error(ErrorKind::usage, problem,
              text(advice, advice.empty() ? "" : "; ", "allowed are ", detail::codec_list(),
                   ", with a fraction 0 < F <= 1 of the elements, as top-k:0.01"));
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
  const std::string digits = parameter.value_or("");
  if (const auto fraction = detail::number_of<double>(digits)) return *fraction;
  refuse_codec(text("codec '", name, "': '", digits, "' is not a fraction"),
               text("give one, as ", codec, ":0.01"));
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const detail::CodecRow& row : detail::codec_table()) names.emplace_back(row.name);
  return names;
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

  const detail::CodecRow* const row = detail::codec_row(codec);
  if (row == nullptr) {
    const auto near = detail::nearest_name(codec_names(), codec);
    refuse_codec(text("no codec is named '", name, "'"),
                 near ? text("did you mean ", *near, parameter ? ":" : "", parameter.value_or(""), "?") : "");
  }
  if (parameter && row->parameter == detail::CodecParameter::none)
    refuse_codec(text("codec '", name, "': ", codec, " takes no parameter"), text("say ", codec));
  detail::CodecChoices choices;
  if (row->parameter == detail::CodecParameter::rounding)
    choices.rounding = rounding_of(name, codec, parameter);
  if (row->parameter == detail::CodecParameter::fraction)
    choices.fraction = fraction_of(name, codec, parameter);
  return row->make(choices);
}

std::shared_ptr<CommHook> hook_named(const std::string& name, std::int64_t start_step) {
  const std::string kind = name.substr(0, name.find(':'));
  if (name == auto_name) return auto_hook({.start_step = start_step});
  if (kind == auto_name) refuse_hook(name, text("say ", auto_name, ", which takes no parameter"));
  if (kind == power_sgd_name) {
    const std::string parameters = kind.size() < name.size() ? name.substr(kind.size() + 1) : "";
    return power_sgd_named(name, parameters, start_step);
  }
  const detail::CodecRow* const row = detail::codec_row(kind);
  if (row == nullptr) {
    std::vector<std::string> names = codec_names();
    names.insert(names.end(), {power_sgd_name, auto_name});
    const auto near = detail::nearest_name(names, kind);
    refuse_hook(
        name,
        text(near ? text("did you mean ", *near, name.substr(kind.size()), "? Allowed") : "allowed", " are ",
             auto_name, ", ", power_sgd_name, ":R[", alternating, "], ", detail::codec_list()));
  }
  const auto start = static_cast<std::uint64_t>(row->is_cast ? 0 : start_step);
  return codec_hook(codec_named(name),
                    {.residual = row->is_cast ? KeptAs::nothing : KeptAs::sixteen_bits, .start_step = start});
}

}  // namespace weft
