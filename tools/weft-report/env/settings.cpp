#include "weft-report/env/settings.hpp"

#include <algorithm>
#include <array>

#include "weft/core/text.hpp"

namespace weft::report {
namespace {

constexpr std::size_t most_shown = 160;
constexpr std::array<std::string_view, 2> secrets{"NCCL_PSK", "WEFT_TOKEN"};

Finding hidden_by(const Setting& other, const Setting& setting) {
  return {
      .cause = "conf-value-hidden",
      .severity = Severity::notice,
      .confidence = 0.95,
      .verdict = text(setting.name, " of ", setting.file, " has no effect: ", other.file, " sets it, too"),
      .evidence = {evidence_of(setting), evidence_of(other)},
      .fix = "remove one of the two"};
}

}  // namespace

const Setting* Settings::find(std::string_view name) const {
  const auto at = values.find(name);
  return at == values.end() ? nullptr : &at->second;
}

Settings settings_of_process(const std::vector<std::string>& environment,
                             const std::vector<Settings>& configurations) {
  Settings all;
  all.who = "environment";
  for (const std::string& line : environment) {
    const std::size_t at = line.find('=');
    if (at == std::string::npos) continue;
    const std::string name = line.substr(0, at);
    all.values.try_emplace(name, Setting{name, line.substr(at + 1), all.who, 0});
  }
  for (const Settings& one : configurations) {
    all.remarks.insert(all.remarks.end(), one.remarks.begin(), one.remarks.end());
    for (const auto& [name, setting] : one.values) {
      const auto [at, fresh] = all.values.try_emplace(name, setting);
      if (fresh || at->second.value == setting.value) continue;
      all.remarks.push_back(hidden_by(at->second, setting));
    }
  }
  return all;
}

std::string printable(std::string_view words) {
  std::string result(words.substr(0, most_shown));
  std::ranges::replace_if(
      result, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (words.size() > most_shown) result.replace(most_shown - 3, 3, "...");
  return result;
}

std::string shown(const Setting& setting) {
  // A line that is no setting may hold a secret nevertheless: export NCCL_PSK=...
  for (const std::string_view secret : secrets) {
    if (setting.name == secret || (setting.name.empty() && setting.value.find(secret) != std::string::npos))
      return text(secret, "=(a secret)");
  }
  return printable(setting.name.empty() ? setting.value : setting.name + '=' + setting.value);
}

Evidence evidence_of(const Setting& setting) {
  return {setting.file, setting.line, shown(setting)};
}

}  // namespace weft::report
