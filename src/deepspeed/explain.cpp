// A Config as a table of text.

#include <algorithm>

#include "core/base/strings.hpp"
#include "deepspeed/resolving.hpp"
#include "weft/core/error.hpp"

namespace weft::deepspeed {
namespace {

std::string source_of(const Config& config, const Setting& setting) {
  std::string place = setting.line > 0 ? text(config.called, ":", setting.line) : "";
  if (!setting.written.empty()) place += text(" as ", setting.written);
  switch (setting.origin) {
    case Origin::file:
      return place;
    case Origin::automatic:
      return text(place, ", auto: default");
    case Origin::fallback:
      return "default";
    case Origin::derived:
      break;
  }
  return place.empty() ? "from the others" : text(place, ", from the others");
}

std::string padded(std::string words, std::size_t width) {
  words.resize(std::max(words.size(), width), ' ');
  return words;
}

}  // namespace

std::string explain(const Config& config) {
  constexpr std::size_t widest_value = 40;
  std::size_t key_width = 3, value_width = 5, source_width = 6;
  for (const Setting& setting : config.settings) {
    key_width = std::max(key_width, setting.key.size());
    value_width = std::max(value_width, std::min(setting.value.size(), widest_value));
    source_width = std::max(source_width, source_of(config, setting).size());
  }
  const auto row = [&](const std::string& key, const std::string& value, const std::string& source,
                       const std::string& in_weft) {
    return text(padded(detail::printable(key), key_width), "  ",
                padded(detail::printable(value), value_width), "  ",
                padded(detail::printable(source), source_width), "  ", in_weft, "\n");
  };
  std::string table = row("key", "value", "source", "in weft");
  for (const Setting& setting : config.settings)
    table += row(setting.key, setting.value, source_of(config, setting), setting.in_weft);
  try {
    (void)options(config);
  } catch (const Error& error) {
    table += text("weft refuses it: ", detail::printable(error.problem()), error.advice().empty() ? "" : "; ",
                  detail::printable(error.advice()), "\n");
  }
  return table;
}

}  // namespace weft::deepspeed
