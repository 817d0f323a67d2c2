// Settings that the logs state, judged by the rules of weft-report env for the NCCL that the logs name. Only what has consequences is told:
// remarks for people who tidy up an environment are left to that command.

#include <algorithm>
#include <array>
#include <map>

#include "weft-report/env/lint.hpp"
#include "weft-report/env/rules.hpp"
#include "weft-report/nccl/rules/rules.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::size_t most_sets = 64;

/// The report itself asks for these.
constexpr std::array<std::string_view, 3> of_the_log{"debug-trace", "debug-every-collective", "debug-info"};
/// Within a node they cost nothing.
constexpr std::array<std::string_view, 6> between_nodes{"ib-disabled",      "interface-loopback",
                                                        "interface-docker", "socket-network-forced",
                                                        "gdr-level-local",  "gdr-level-local-by-old-name"};

template <std::size_t count>
bool is_one_of(const std::array<std::string_view, count>& names, std::string_view cause) {
  return std::ranges::find(names, cause) != names.end();
}

/// What NCCL says that it took, it reads in this version.
bool taken_by_nccl(const Fact& fact) {
  return fact.evidence.text.find("NCCL INFO") != std::string::npos;
}

Settings settings_of(const Process& process, bool also_taken) {
  Settings all{.who = process.host, .values = {}, .remarks = {}, .whole = false};
  for (const auto& [name, fact] : process.settings) {
    if (also_taken || !taken_by_nccl(fact))
      all.values.emplace(name, Setting{name, fact.value, fact.evidence.file, fact.evidence.line});
  }
  return all;
}

NcclVersion version_of(const Job& job, const Process& process) {
  const Fact* said = process.version        ? &process.version
                     : job.versions.empty() ? nullptr
                                            : &job.versions.front();
  return said == nullptr ? newest_known : parse_nccl_version(said->value, 0).value_or(newest_known);
}

/// The line of the log in place of the setting.
void show_lines(const Process& process, Finding& finding) {
  for (Evidence& one : finding.evidence) {
    for (const auto& [name, fact] : process.settings) {  // several may stand in one line
      if (fact.evidence.file == one.file && fact.evidence.line == one.line) one = fact.evidence;
    }
  }
}

bool is_told(const Finding& finding, const std::vector<Finding>& others) {
  const auto stands_there = [&](const Evidence& line) {
    return std::ranges::any_of(others, [&](const Finding& other) {
      return std::ranges::any_of(
          other.evidence, [&](const Evidence& e) { return e.file == line.file && e.line == line.line; });
    });
  };
  return std::ranges::all_of(finding.evidence, stands_there);
}

bool matters(const Finding& finding, const Job& job) {
  const bool judged_here = std::ranges::find(causes(), finding.cause, &Cause::name) != causes().end();
  return finding.severity > Severity::notice && !judged_here && !is_one_of(of_the_log, finding.cause) &&
         (job.several_nodes() || !is_one_of(between_nodes, finding.cause));
}

}  // namespace

void add_settings(const Job& job, std::vector<Finding>& findings) {
  std::map<std::map<std::string, std::string>, bool> seen;
  std::vector<Finding> told;
  for (const Process& process : job.processes) {
    std::map<std::string, std::string> values;
    for (const auto& [name, fact] : process.settings) values[name] = fact.value;
    if (values.empty() || seen.size() >= most_sets || !seen.try_emplace(std::move(values)).second) continue;
    const NcclVersion version = version_of(job, process);
    const Settings all = settings_of(process, true);
    for (std::vector<Finding> some : {check_names(settings_of(process, false), version),
                                      check_values(all, version), apply_rules(all, version)}) {
      for (Finding& one : some) {
        const bool known =
            std::ranges::any_of(told, [&](const Finding& other) { return other.verdict == one.verdict; });
        if (known || !matters(one, job)) continue;
        show_lines(process, one);
        if (!is_told(one, findings)) told.push_back(std::move(one));
      }
    }
  }
  std::ranges::move(told, std::back_inserter(findings));
}

}  // namespace weft::report::nccl
