#include "weft-report/env/lint.hpp"

#include <algorithm>
#include <iterator>

#include "weft-report/env/rules.hpp"
#include "weft-report/env/variables.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

constexpr std::size_t most_places = 8;

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// An image's NCCL_VERSION is not what is loaded, but a hint that another version is.
std::vector<Finding> compare_versions(const Settings& settings, const NcclVersion& version) {
  const Setting* set = settings.find("NCCL_VERSION");
  if (set == nullptr) return {};
  const auto said = parse_nccl_version(set->value, 0);
  const auto same_line = [&] {
    return said->parts[0] == version.parts[0] && said->parts[1] == version.parts[1];
  };
  if (!said || same_line()) return {};
  return {{.cause = "another-version",
           .severity = Severity::notice,
           .confidence = 0.7,
           .verdict = text("the settings are judged for NCCL ", name(version), ", and NCCL_VERSION says ",
                           name(*said)),
           .evidence = {evidence_of(*set)},
           .fix = text("give --nccl ", name(*said), " if that is the NCCL that the job loads")}};
}

/// Settings of no documentation. In a file of NCCL they count for every job of the machine or image, long after the trial that they were for.
std::vector<Finding> internal_settings(const Settings& settings, const NcclVersion& version) {
  std::vector<Finding> findings;
  if (settings.whole) return findings;
  for (const auto& [name, setting] : settings.values) {
    const Variable* variable = find_variable(name);
    if (variable == nullptr || variable->kind != Kind::internal || setting.value.empty() ||
        !exists_in(*variable, version))
      continue;
    findings.push_back(
        {.cause = "internal-setting",
         .severity = Severity::warning,
         .confidence = 0.5,
         .verdict = text(
             shown(setting),
             ": NCCL does not document it; here it counts for every job, and may be left over from a trial"),
         .evidence = {evidence_of(setting)},
         .fix = "remove it, unless who supports your NCCL has asked for it"});
  }
  return findings;
}

/// Findings that several ranks have alike become one, with the places of all of them.
std::vector<Finding> merged(std::vector<Finding> findings) {
  std::vector<Finding> result;
  std::map<std::string, std::size_t> known;
  std::vector<std::size_t> left_out;
  for (Finding& finding : findings) {
    const auto [at, fresh] = known.try_emplace(finding.cause + '\n' + finding.verdict, result.size());
    if (fresh) {
      result.push_back(std::move(finding));
      left_out.push_back(0);
      continue;
    }
    std::vector<Evidence>& evidence = result[at->second].evidence;
    for (Evidence& one : finding.evidence) {
      if (evidence.size() < most_places)
        evidence.push_back(std::move(one));
      else
        ++left_out[at->second];
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (left_out[i] > 0) result[i].verdict += text(" (and in ", left_out[i], " more places)");
  }
  return result;
}

}  // namespace

std::vector<Finding> lint(const std::vector<Settings>& ranks, const NcclVersion& version) {
  std::vector<Finding> all = compare_ranks(ranks);
  for (const Settings& one : ranks) {
    append(all, one.remarks);
    append(all, check_names(one, version));
    append(all, check_values(one, version));
    append(all, apply_rules(one, version));
    append(all, internal_settings(one, version));
    append(all, compare_versions(one, version));
  }
  std::vector<Finding> findings = merged(std::move(all));
  sort_by_importance(findings);
  return findings;
}

std::vector<Finding> check_values(const Settings& settings, const NcclVersion& version) {
  std::vector<Finding> findings;
  for (const auto& [name, setting] : settings.values) {
    const Variable* variable = find_variable(name);
    if (variable == nullptr || !exists_in(*variable, version)) continue;
    const auto complaint = complaint_about(*variable, setting.value);
    if (!complaint) continue;
    findings.push_back({.cause = "value-not-allowed",
                        .severity = Severity::warning,
                        .confidence = 0.9,
                        .verdict = text(shown(setting), ": the value ", *complaint),
                        .evidence = {evidence_of(setting)},
                        .fix = text("allowed is ", allowed_values(*variable))});
  }
  return findings;
}

int count_settings(const Settings& settings) {
  return static_cast<int>(std::ranges::count_if(settings.values, [](const auto& one) {
    return find_variable(one.first) != nullptr && !one.second.value.empty();
  }));
}

}  // namespace weft::report
