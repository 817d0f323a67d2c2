// Rules to findings: one for each cause, with the evidence of all rules that name it.

#include "weft-report/nccl/nccl.hpp"

#include <algorithm>

#include "weft-report/nccl/catalogue/catalogue.hpp"
#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::size_t most_evidence = 5;
constexpr std::size_t most_named = 4;

bool same_place(const Evidence& a, const Evidence& b) {
  return a.file == b.file && a.line == b.line;
}

void add_evidence(Finding& finding, const std::vector<Evidence>& more) {
  for (const Evidence& one : more) {
    const bool known =
        std::ranges::any_of(finding.evidence, [&](const Evidence& e) { return same_place(e, one); });
    if (!known && finding.evidence.size() < most_evidence) finding.evidence.push_back(one);
  }
}

/// The surer one speaks; the other adds evidence.
void merge(std::vector<Finding>& findings, Finding one) {
  const auto known = std::ranges::find(findings, one.cause, &Finding::cause);
  if (known == findings.end()) {
    findings.push_back(std::move(one));
    return;
  }
  if (one.confidence > known->confidence) std::swap(*known, one);
  known->severity = std::max(known->severity, one.severity);
  add_evidence(*known, one.evidence);
}

/// " (12 lines on gn41, gn42 and 3 more hosts)"
std::string lines_and_hosts(const Occurrences& all) {
  if (all.count < 2) return all.hosts.size() == 1 ? text(" (on ", *all.hosts.begin(), ')') : std::string();
  std::string hosts;
  std::size_t named = 0;
  for (const std::string& host : all.hosts) {
    if (named++ < most_named) hosts += text(hosts.empty() ? " on " : ", ", host);
  }
  if (named > most_named) hosts += text(" and ", named - most_named, " more hosts");
  return text(" (", all.count, " lines", hosts, ')');
}

/// What stands beside a cause and explains it: the setting, or a line that alone would mean nothing.
void add_context(const Job& job, Finding& finding) {
  const auto add_setting = [&](const char* name) {
    if (const Fact* fact = job.setting(name)) add_evidence(finding, {fact->evidence});
  };
  const auto add_aside = [&](const char* name) {
    const auto found = job.asides.find(name);
    if (found != job.asides.end()) add_evidence(finding, {found->second});
  };
  if (finding.cause == "graph-file-leftover") add_setting("NCCL_GRAPH_FILE");
  if (finding.cause == "topology-file-bad") add_setting("NCCL_TOPO_FILE");
  if (finding.cause == "gdr-distance") add_setting("NCCL_NET_GDR_LEVEL");
  if (finding.cause == "collnet-fallback") add_setting("NCCL_COLLNET_ENABLE");
  if (finding.cause == "wrong-hca") add_setting("NCCL_IB_HCA");
  if (finding.cause == "ifname-not-found" || finding.cause == "wrong-interface")
    add_setting("NCCL_SOCKET_IFNAME");
  if (finding.cause == "roce-gid") {
    if (const Evidence* roce = job.roce()) add_evidence(finding, {*roce});
    add_setting("NCCL_IB_GID_INDEX");
  }
  if (finding.cause == "net-fallback-socket") {
    add_aside("no libibverbs");
    add_aside("no RDMA device");
  }
  if (finding.cause == "ofi-missing") {
    for (const Process& one : job.processes) {
      if (one.bootstrap.value.starts_with("lo:")) return add_evidence(finding, {one.bootstrap.evidence});
    }
  }
}

/// Causes that none of the job's versions has. Their warnings stay to be read.
void leave_out_other_versions(const Job& job, std::vector<Finding>& findings) {
  std::vector<Finding> unexplained;
  std::erase_if(findings, [&](const Finding& one) {
    if (has_version_for(job, cause_named(one.cause))) return false;
    for (const Evidence& line : one.evidence) {
      if (line.text.find("NCCL WARN") != std::string::npos)
        unexplained.push_back(finding_of("unexplained-warning", 0.2, {line}));
    }
    return true;
  });
  for (Finding& one : unexplained) merge(findings, std::move(one));
}

/// What only measured bandwidths show is a symptom: where something else was found, that may be its cause, and comes first.
void put_symptoms_behind(std::vector<Finding>& findings) {
  const auto is_symptom = [](const Finding& one) {
    return one.cause != "wrong-results" &&
           std::ranges::find(bandwidth_rules(), one.cause, &JobRule::cause) != bandwidth_rules().end();
  };
  const Finding* worst = nullptr;
  for (const Finding& one : findings) {
    if (is_symptom(one) || one.cause == "unexplained-warning") continue;
    if (worst == nullptr || one.severity > worst->severity) worst = &one;
  }
  if (worst == nullptr) return;
  for (Finding& one : findings) {
    if (!is_symptom(one)) continue;
    one.severity = std::min(one.severity, worst->severity);
    one.confidence *= 0.4;
  }
}

/// Beside another cause, that a rank ended is the effect: a warning, or nothing if it only gave up.
void put_ends_behind(std::vector<Finding>& findings) {
  const auto is_end = [](const Finding& one) { return one.cause == "rank-ended"; };
  const bool explained = std::ranges::any_of(
      findings, [&](const Finding& one) { return !is_end(one) && one.severity >= Severity::warning; });
  if (!explained) return;
  std::erase_if(findings,
                [&](const Finding& one) { return is_end(one) && one.severity == Severity::warning; });
  for (Finding& one : findings) {
    if (is_end(one)) one.severity = Severity::warning;
  }
}

/// A job that ended with an error is never well, even if nothing says why.
void add_failures(const Job& job, std::vector<Finding>& findings) {
  const bool explained =
      std::ranges::any_of(findings, [](const Finding& one) { return one.severity >= Severity::warning; });
  const bool went_on = !findings.empty();
  if (job.failures.count > 0 && !explained) {
    findings.push_back(finding_of("unexplained-error", 0.3, job.failures.evidence));
  } else if (job.failed_returns.count > 0 && !went_on) {
    findings.push_back(finding_of("unexplained-error", 0.3, job.failed_returns.evidence));
  }
}

}  // namespace

std::string what_was_looked_at(const Job& job) {
  struct Part {
    std::string_view what;
    std::string_view subsystem;
    bool seen;
  };
  const auto one_has = [&](auto has) { return std::ranges::any_of(job.processes, has); };
  const Part parts[] = {
      {"how communicators begin", "INIT", one_has([](const Process& one) { return one.inits_started > 0; })},
      {"interfaces", "BOOTSTRAP", one_has([](const Process& one) { return bool(one.bootstrap); })},
      {"settings", "ENV", one_has([](const Process& one) { return !one.settings.empty(); })},
      {"network ports", "NET", one_has([](const Process& one) { return one.nics || one.sockets; })},
      {"topology", "GRAPH", !job.patterns.empty()},
      {"calls of collectives", "COLL", !job.calls.empty()}};
  std::string seen;
  std::string missing;
  for (const Part& part : parts) {
    std::string& words = part.seen ? seen : missing;
    words += words.empty() ? "" : ", ";
    words += part.seen ? std::string(part.what) : text(part.subsystem, " (", part.what, ')');
  }
  return text(
      "looked at: ", seen.empty() ? "warnings and errors alone" : seen,
      missing.empty() ? "" : "; NCCL_DEBUG=INFO with these in NCCL_DEBUG_SUBSYS would add: ", missing);
}

std::vector<Finding> examine(const Job& job) {
  std::vector<Finding> findings;
  const auto rules = line_rules();
  std::vector<bool> fired(rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (job.matches[i].count == 0 || (rules[i].when != nullptr && !rules[i].when(job))) continue;
    if (!has_version_for(job, cause_named(rules[i].cause))) continue;
    fired[i] = true;
    Finding finding = finding_of(rules[i].cause, rules[i].confidence, job.matches[i].evidence);
    finding.verdict += lines_and_hosts(job.matches[i]);
    merge(findings, std::move(finding));
  }
  for (const std::span<const JobRule> table : all_job_rules()) {
    for (const JobRule& rule : table) {
      std::vector<Finding> found;
      rule.find(job, found);
      for (Finding& one : found) merge(findings, std::move(one));
    }
  }
  leave_out_other_versions(job, findings);
  add_catalogue(job, fired, findings);
  add_failures(job, findings);
  for (Finding& finding : findings) add_context(job, finding);
  add_settings(job, findings);
  put_symptoms_behind(findings);
  put_ends_behind(findings);
  sort_by_importance(findings);
  return findings;
}

}  // namespace weft::report::nccl
