// Warnings that no rule explained, to findings.

#include <algorithm>

#include "weft-report/nccl/catalogue/catalogue.hpp"
#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using Findings = std::vector<Finding>;

constexpr double first_open = 0.45;
constexpr double open_step = 0.05;

bool shows(const Finding& finding, const Evidence& line) {
  return std::ranges::any_of(
      finding.evidence, [&](const Evidence& one) { return one.line == line.line && one.file == line.file; });
}

/// For each of the lines a rule has fired, or a finding shows the first of them.
bool is_explained(const Warned& warned, const std::vector<bool>& fired, const Findings& findings) {
  const bool by_rules = std::ranges::all_of(warned.rules, [&](const std::vector<std::uint16_t>& of_line) {
    return std::ranges::any_of(of_line, [&](std::uint16_t rule) { return fired[rule]; });
  });
  return by_rules || std::ranges::any_of(findings, [&](const Finding& one) {
           return shows(one, warned.lines.evidence.front());
         });
}

void add(Findings& findings, Finding one) {
  const auto known = std::ranges::find(findings, one.cause, &Finding::cause);
  if (known == findings.end()) return findings.push_back(std::move(one));
  if (one.confidence > known->confidence) std::swap(*known, one);
  known->severity = std::max(known->severity, one.severity);
  for (Evidence& line : one.evidence) {
    if (known->evidence.size() < 5 && !shows(*known, line)) known->evidence.push_back(std::move(line));
  }
}

bool decides(const Job& job, const Findings& findings, const Candidate& one) {
  return one.confidence > 0 && (one.when == nullptr || one.when(job, findings)) &&
         has_version_for(job, cause_named(one.cause));
}

/// @return whether one of the causes is sure
bool add_decided(const Job& job, const Topic& topic, const Warned& warned, const Findings& before,
                 Findings& findings) {
  for (const Candidate& one : topic.candidates) {
    if (one.cause.empty() || !decides(job, before, one)) continue;
    Finding finding = finding_of(one.cause, one.confidence, warned.lines.evidence);
    if (topic.meaning != Meaning::fault) finding.severity = std::min(finding.severity, Severity::warning);
    add(findings, std::move(finding));
    return true;
  }
  return false;
}

/// Every cause, with how to find out which.
void add_open(const Job& job, const Topic& topic, const Warned& warned, Findings& findings) {
  const Severity most = topic.meaning == Meaning::slower || topic.meaning == Meaning::harmless
                            ? Severity::notice
                            : Severity::warning;
  double confidence = first_open;
  bool any = false;
  for (const Candidate& one : topic.candidates) {
    if (one.cause.empty() || !has_version_for(job, cause_named(one.cause))) continue;
    if (one.tells.empty() && one.when != nullptr) continue;
    Finding finding = finding_of(one.cause, confidence, warned.lines.evidence);
    any = true;
    confidence -= open_step;
    finding.severity = std::min(finding.severity, most);
    finding.verdict = text("possible, while NCCL ", topic.doing, ": ", finding.verdict);
    if (!one.tells.empty()) finding.fix = text("to find out: ", one.tells, "; then: ", finding.fix);
    add(findings, std::move(finding));
  }
  if (!any) add(findings, finding_of("unexplained-warning", 0.2, warned.lines.evidence));
}

void add_harmless(const Topic& topic, const Warned& warned, Findings& findings) {
  Finding finding = finding_of("harmless-warning", 0.3, warned.lines.evidence);
  finding.verdict = text("a warning that also jobs print that are well, while NCCL ", topic.doing);
  finding.fix = std::string(topic.candidates[0].tells);
  add(findings, std::move(finding));
}

}  // namespace

void add_catalogue(const Job& job, const std::vector<bool>& fired, Findings& findings) {
  const Findings before = findings;
  std::vector<const std::pair<const std::uint16_t, Warned>*> follow;
  for (const auto& entry : job.warnings) {
    if (is_explained(entry.second, fired, before)) continue;
    if (entry.first == no_row) {
      add(findings, finding_of("unexplained-warning", 0.2, entry.second.lines.evidence));
      continue;
    }
    const Topic& topic = topic_of(entry.first);
    if (topic.meaning == Meaning::harmless) {
      add_harmless(topic, entry.second, findings);
    } else if (topic.meaning == Meaning::follows) {
      follow.push_back(&entry);
    } else if (!add_decided(job, topic, entry.second, before, findings)) {
      add_open(job, topic, entry.second, findings);
    }
  }
  const bool has_first = std::ranges::any_of(findings, [](const Finding& one) {
    return one.severity >= Severity::warning && one.cause != "peer-lost";
  });
  for (const auto* entry : follow) {
    if (!has_first) add_open(job, topic_of(entry->first), entry->second, findings);
  }
}

}  // namespace weft::report::nccl
