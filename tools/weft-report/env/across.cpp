// Compares the settings of several ranks or hosts. Ranks that choose algorithms, protocols or buffers differently wait for messages that
// do not come, or take them for others.

#include <algorithm>
#include <set>

#include "core/base/strings.hpp"
#include "weft-report/env/lint.hpp"
#include "weft-report/env/variables.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

constexpr std::size_t most_named = 4;
constexpr std::string_view not_set;

/// Ranks that have the same value of a variable, or none of them.
struct Side {
  std::string value;
  bool set = false;
  std::vector<const Settings*> ranks;
};

/// "0x10" and "16" are one value to NCCL.
std::string canonical(const Variable* variable, const std::string& value) {
  const bool number =
      variable != nullptr && !complaint_about(*variable, value) &&
      (variable->values == "integer" || variable->values.find("..") != std::string_view::npos);
  const auto read = number && !value.empty() ? number_in(value) : std::nullopt;
  return read ? std::to_string(*read) : value;
}

/// The largest first.
std::vector<Side> sides_of(const std::string& name, const Variable* variable,
                           const std::vector<const Settings*>& ranks) {
  std::map<std::pair<bool, std::string>, Side> sides;
  for (const Settings* rank : ranks) {
    const Setting* one = rank->find(name);
    if (one != nullptr && one->value.empty()) one = nullptr;  // NCCL takes its default, as without it
    const std::string value = one == nullptr ? std::string(not_set) : canonical(variable, one->value);
    Side& side = sides[{one != nullptr, value}];
    side.value = value;
    side.set = one != nullptr;
    side.ranks.push_back(rank);
  }
  std::vector<Side> sorted;
  for (auto& [key, side] : sides) sorted.push_back(std::move(side));
  std::ranges::stable_sort(sorted, std::greater(), [](const Side& side) { return side.ranks.size(); });
  return sorted;
}

std::string named(const std::vector<const Settings*>& ranks) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(ranks.size(), most_named); ++i) names.push_back(ranks[i]->who);
  std::string all = detail::listed(names);
  if (ranks.size() > most_named) all += text(" and ", ranks.size() - most_named, " more");
  return all;
}

Evidence evidence_for(const std::string& name, const Side& side) {
  const Setting* one = side.ranks.front()->find(name);
  Evidence evidence =
      one != nullptr ? evidence_of(*one) : Evidence{side.ranks.front()->who, 0, name + " is not set"};
  if (side.ranks.size() > 1)
    evidence.text += text(" (alike in ", side.ranks.size(), ": ", named(side.ranks), ')');
  return evidence;
}

/// How a variable comes to the ranks that lack it.
std::string way_to(const std::vector<const Settings*>& ranks) {
  const auto have = [&](std::string_view name) {
    return std::ranges::any_of(ranks, [&](const Settings* one) { return one->find(name) != nullptr; });
  };
  if (have("KUBERNETES_SERVICE_HOST"))
    return "Kubernetes passes only what the manifest of each pod has under env";
  if (have("OMPI_COMM_WORLD_RANK")) return "mpirun passes to other hosts only what -x NAME names";
  if (have("SLURM_PROCID")) return "srun passes variables unless --export or SLURM_EXPORT_ENV forbids it";
  return "ssh passes no variables, mpirun only those of -x NAME, Kubernetes only those in the manifest of "
         "each pod";
}

std::vector<Finding> compare_one(const std::string& name, const std::vector<const Settings*>& ranks) {
  const Variable* variable = find_variable(name);
  if (variable != nullptr && variable->ranks == Ranks::free) return {};
  const std::vector<Side> sides = sides_of(name, variable, ranks);
  if (sides.size() < 2) return {};
  const auto lacking = std::ranges::find(sides, false, &Side::set);
  const bool equal = variable != nullptr && variable->ranks == Ranks::equal;
  Finding finding{.cause = variable == nullptr ? "version-mismatch" : "env-mismatch",
                  .severity = equal || variable == nullptr ? Severity::critical : Severity::warning,
                  .confidence = variable == nullptr      ? 0.7
                                : lacking == sides.end() ? 0.9
                                                         : 0.75};
  finding.verdict = text(name, " differs between ranks: ", sides.size(), " values in ", ranks.size(),
                         " files", equal ? ", and ranks that differ hang, fail or give wrong results" : "");
  for (std::size_t i = 0; i < std::min(sides.size(), most_named); ++i)
    finding.evidence.push_back(evidence_for(name, sides[i]));
  finding.fix = variable == nullptr ? "use one image, with one NCCL, for all ranks"
                                    : "set it to one value on every rank";
  if (lacking != sides.end()) finding.fix += text("; ", way_to(lacking->ranks));
  return {std::move(finding)};
}

/// Ranks without any setting, where others have some.
std::vector<Finding> find_bare(const std::vector<const Settings*>& ranks,
                               std::vector<const Settings*>& others) {
  std::vector<const Settings*> bare;
  for (const Settings* one : ranks) (count_settings(*one) == 0 && one->whole ? bare : others).push_back(one);
  if (bare.empty() || others.empty()) return {};
  const int settings = count_settings(*others.front());
  return {
      {.cause = "environment-not-passed",
       .severity = Severity::critical,
       .confidence = 0.8,
       .verdict = text(bare.size(), " of ", ranks.size(), " files have no setting of NCCL: ", named(bare)),
       .evidence = {{others.front()->who, 0,
                     text("has ", settings, settings == 1 ? " setting" : " settings", " of NCCL")},
                    {bare.front()->who, 0, "has none"}},
       .fix = text("give every rank the same settings; ", way_to(bare))}};
}

}  // namespace

std::vector<Finding> compare_ranks(const std::vector<Settings>& ranks) {
  if (ranks.size() < 2) return {};
  std::vector<const Settings*> all;
  for (const Settings& one : ranks) all.push_back(&one);
  std::vector<const Settings*> others;
  std::vector<Finding> findings = find_bare(all, others);
  std::set<std::string> names;
  for (const Settings* one : others) {
    for (const auto& [name, setting] : one->values) {
      if (find_variable(name) != nullptr && !setting.value.empty()) names.insert(name);
    }
  }
  for (const std::string& name : names) {
    for (Finding& one : compare_one(name, others)) findings.push_back(std::move(one));
  }
  // An image of another kind may have no such name, which says nothing.
  std::vector<const Settings*> with_version;
  std::ranges::copy_if(all, std::back_inserter(with_version),
                       [](const Settings* one) { return one->find("NCCL_VERSION") != nullptr; });
  for (Finding& one : compare_one("NCCL_VERSION", with_version)) findings.push_back(std::move(one));
  return findings;
}

}  // namespace weft::report
