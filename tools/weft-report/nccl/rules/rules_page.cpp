// The tables of rules as a page: docs/findings.md.

#include <algorithm>
#include <string>
#include <vector>

#include "weft-report/nccl/catalogue/catalogue.hpp"
#include "weft-report/nccl/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

constexpr std::string_view head =
    R"(# Findings of weft-report nccl

This page is generated: `weft-report nccl --rules` prints it. A cause is the name that a finding carries in `--json`. Every rule has a log that fires
it and one nearly the same that does not, in `tests/unit/tools/weft-report/nccl`. [nccl-report.md](nccl-report.md) says how to use the report. Settings that
logs state are judged by the rules of `weft-report env`, too ([nccl-env.md](nccl-env.md)).

In the last column, `...` stands for any text within one line. Warnings that no rule explains are named by what NCCL was doing; their
texts stand in `tools/weft-report/nccl/catalogue`. A cause that is limited to versions of NCCL is not reported where the logs name others
only. An effect has a figure where one was measured or follows from the hardware's rates.

| cause | severity | what is wrong | what to do | expected effect | does not apply when | NCCL | shown by |
|---|---|---|---|---|---|---|---|
)";

/// Replaces bars, which would end a cell of the table, and backticks, which would end code.
std::string cell(std::string_view words) {
  std::string safe(words);
  std::ranges::replace(safe, '|', '/');
  std::ranges::replace(safe, '`', '\'');
  return safe;
}

std::string line_of(const LineRule& rule) {
  std::string line;
  for (const std::string_view phrase : rule.phrases) {
    if (!phrase.empty()) line += text(line.empty() ? "" : " ... ", cell(phrase));
  }
  return text('`', line, '`');
}

/// Lines and facts that show a cause, each once.
std::string shown_by(std::string_view cause) {
  std::vector<std::string> all;
  for (const LineRule& rule : line_rules()) {
    if (rule.cause == cause) all.push_back(line_of(rule));
  }
  for (const std::span<const JobRule> table : all_job_rules()) {
    for (const JobRule& rule : table) {
      if (rule.cause.find(cause) != std::string_view::npos) all.push_back(cell(rule.looks_for));
    }
  }
  std::string warnings;
  for (const Topic& topic : topics()) {
    const bool names =
        std::ranges::find(topic.candidates, cause, &Candidate::cause) != std::end(topic.candidates);
    if (names && warnings.find(topic.doing) == std::string::npos)
      warnings += text(warnings.empty() ? "" : "; ", cell(topic.doing));
  }
  if (!warnings.empty()) all.push_back(text("`while NCCL ", warnings, '`'));
  std::string joined;
  for (auto one = all.begin(); one != all.end(); ++one) {
    if (std::find(all.begin(), one, *one) == one) joined += text(joined.empty() ? "" : "; ", *one);
  }
  return joined;
}

}  // namespace

std::string rules_page() {
  std::string page(head);
  for (const Cause& cause : causes()) {
    page += text("| `", cause.name, "` | ", name(cause.severity), " | ", cell(cause.verdict), " | ",
                 cell(cause.fix), " | ", cell(cause.effect), " | ", cell(cause.not_when), " | ",
                 cause.versions.empty() ? "all" : cause.versions, " | ", shown_by(cause.name), " |\n");
  }
  std::size_t of_jobs = 0;
  for (const std::span<const JobRule> table : all_job_rules()) of_jobs += table.size();
  page += text('\n', causes().size(), " causes, ", line_rules().size(), " rules of single lines and ",
               of_jobs, " of whole jobs; ", rows().size(), " texts of warnings in the catalogue.\n");
  return page;
}

}  // namespace weft::report::nccl
