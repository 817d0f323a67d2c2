// Names that NCCL does not read. NCCL says nothing of them: a letter too many, and a setting has no effect.

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/strings.hpp"
#include "weft-report/env/lint.hpp"
#include "weft-report/env/variables.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

constexpr std::string_view prefix = "NCCL_";
constexpr std::size_t longest_known =
    64;  // longer names resemble none, and comparing takes their length squared

struct Replacement {
  std::string_view gone;
  std::string_view instead;
};

constexpr std::array replacements{
    Replacement{"NCCL_LL_THRESHOLD", "NCCL_PROTO"},
    Replacement{"NCCL_TREE_THRESHOLD", "NCCL_ALGO"},
    Replacement{"NCCL_IB_CUDA_SUPPORT", "NCCL_NET_GDR_LEVEL"},
    Replacement{"NCCL_CHECKS_DISABLE", "NCCL_CHECK_POINTERS"},
};

std::string in_capitals(std::string_view name) {
  std::string result(name);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return result;
}

/// Whether the edit distance is at most `most`, and it. What is equal at both ends is not looked at, which changes no distance; one edit
/// leaves at most two letters between.
std::optional<std::size_t> distance_within(std::string_view a, std::string_view b, std::size_t most) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > most) return std::nullopt;
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a.remove_suffix(1);
    b.remove_suffix(1);
  }
  if (most == 1 && std::max(a.size(), b.size()) > 2) return std::nullopt;
  const std::size_t distance = detail::edit_distance(a, b);
  return distance <= most ? std::optional(distance) : std::nullopt;
}

/// The names at the smallest distance, which is at most `most`.
std::vector<std::string_view> nearest_within(std::string_view name, std::size_t most) {
  std::vector<std::string_view> nearest;
  for (const Variable& one : nccl_variables()) {
    const auto distance = distance_within(one.name, name, most);
    if (!distance) continue;
    if (*distance < most) nearest.clear();
    most = *distance;
    nearest.push_back(one.name);
  }
  if (nearest.size() > 3) nearest.resize(3);
  return nearest;
}

std::string either(const std::vector<std::string_view>& names) {
  std::string all;
  for (const std::string_view one : names) all.append(all.empty() ? "" : " or ").append(one);
  return all;
}

Finding finding_on(const Setting& setting, std::string cause, double confidence, std::string verdict,
                   std::string fix) {
  return {.cause = std::move(cause),
          .severity = Severity::warning,
          .confidence = confidence,
          .verdict = std::move(verdict),
          .evidence = {evidence_of(setting)},
          .fix = std::move(fix)};
}

Finding unknown(const Setting& setting, const std::vector<std::string_view>& nearest) {
  const std::string name = printable(setting.name);
  if (nearest.empty()) {
    return finding_on(setting, "unknown-variable", 0.6,
                      text(name, " is unknown: no NCCL up to 2.32.3 reads it"),
                      "remove it, or see which plug-in or program reads it");
  }
  return finding_on(setting, "unknown-variable", 0.95,
                    text(name, " is unknown: nothing reads it; ", either(nearest), " is near"),
                    text("write ", either(nearest)));
}

std::string fix_for_gone(const Variable& variable) {
  for (const Replacement& one : replacements) {
    if (one.gone == variable.name) return text("remove it; ", one.instead, " came instead");
  }
  return "remove it";
}

/// A finding where this version does not read the variable; it would be one, at most.
std::vector<Finding> check_version(const Setting& setting, const Variable& variable,
                                   const NcclVersion& version) {
  if (variable.kind == Kind::ignored) {
    return {finding_on(setting, "variable-without-effect", 0.95,
                       text(variable.name, " has no effect: NCCL takes it and never looks at it"),
                       "remove it")};
  }
  if (exists_in(variable, version)) return {};
  const bool gone = !variable.gone.empty() && version >= parse_nccl_version(variable.gone, 0).value();
  if (gone) {
    return {finding_on(setting, "variable-gone", 0.95,
                       text(variable.name, " has no effect: NCCL ", name(version),
                            " does not read it any more (gone in ", variable.gone, " or before)"),
                       fix_for_gone(variable))};
  }
  return {finding_on(setting, "variable-not-yet", 0.95,
                     text(variable.name, " has no effect: NCCL ", name(version), " does not read it yet; ",
                          variable.since, " does"),
                     "remove it, or use a newer NCCL")};
}

}  // namespace

std::vector<std::string_view> nearest_variables(std::string_view name) {
  if (name.size() > longest_known) return {};
  const std::string capitals = in_capitals(name);
  if (const Variable* same = find_variable(capitals)) return {same->name};
  // Short names resemble others by chance, and names of others than NCCL even more so.
  const std::size_t own = capitals.starts_with(prefix) ? capitals.size() - prefix.size() : 0;
  const std::size_t most = std::clamp<std::size_t>(own / 4, 1, 3);
  std::vector<std::string_view> nearest =
      nearest_within(capitals, 1);  // most typos are one letter, and those are found fast
  return nearest.empty() && most > 1 ? nearest_within(capitals, most) : nearest;
}

std::vector<Finding> check_names(const Settings& settings, const NcclVersion& version) {
  std::vector<Finding> findings;
  for (const auto& [name, setting] : settings.values) {
    if (setting.value.empty()) continue;  // as if it were not set
    if (const Variable* variable = find_variable(name)) {
      for (Finding& one : check_version(setting, *variable, version)) findings.push_back(std::move(one));
      continue;
    }
    if (foreign_owner(name)) continue;
    const std::vector<std::string_view> nearest = nearest_variables(name);
    if (name.starts_with(prefix) || !nearest.empty()) findings.push_back(unknown(setting, nearest));
  }
  return findings;
}

}  // namespace weft::report
