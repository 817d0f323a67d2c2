#include "common/findings/report_page.hpp"

#include <algorithm>

#include "common/page/markup.hpp"
#include "common/page/page.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

constexpr std::string_view report_style = R"css(
:root { --warn: #7d5200; --gdr: #cdeae3; --p2p: #d9e7f7; --rdma: #e9daf1; --tcp: #f9d3b8; --shm: #e4e6ea; }
@media screen and (prefers-color-scheme: dark) { :root {
  --warn: #e8b85c; --gdr: #1d4a44; --p2p: #29415c; --rdma: #4a3159; --tcp: #6d3413; --shm: #39414a; } }
.critical { --mark: var(--bad); } .warning { --mark: var(--warn); } .notice { --mark: var(--soft); } .well { --mark: var(--good); }
.severity { color: var(--mark); font-weight: 600; }
.finding { border-left: 4px solid var(--mark); padding: .1rem 0 .1rem 1rem; margin: 1.2rem 0 1.8rem; }
.finding h3 { display: block; font-size: 1.02rem; line-height: 1.4; max-width: 48rem; overflow-wrap: anywhere; }
.verdict { overflow-wrap: anywhere; }
p.note code { font-size: .95em; }
pre { margin: .6rem 0; padding: .6rem .75rem; background: var(--raised); overflow-x: auto;
  font: 12.5px/1.55 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre span { color: var(--soft); }
dl { margin: .5rem 0 0; max-width: 48rem; }
dt { color: var(--soft); font-size: .87rem; } dd { margin: 0 0 .45rem; overflow-wrap: anywhere; }
dd.todo { font-weight: 600; }
td.odd { color: var(--bad); font-weight: 600; }
thead th.words { white-space: nowrap; }
td.wraps { white-space: normal; min-width: 14rem; overflow-wrap: anywhere; } tbody th.wraps { white-space: normal; min-width: 8.5rem; }
.tall { max-height: 30rem; overflow: auto; }
table.ranks { width: auto; } table.ranks td { padding: .18rem .45rem; border: 1px solid var(--ground); min-width: 3.2rem; }
table.ranks th { padding-right: .9rem; } table.ranks b { margin-left: .35em; }
td.gdr { background: var(--gdr); } td.p2p { background: var(--p2p); } td.rdma { background: var(--rdma); }
td.tcp { background: var(--tcp); } td.shm { background: var(--shm); }
.on-TCP { fill: var(--exposed); background: var(--exposed); } .on-RDMA { fill: var(--plum); background: var(--plum); }
.on-GPUDirect { fill: var(--wire); background: var(--wire); } .on-SHM { fill: var(--soft); background: var(--soft); }
.on-P2P { fill: var(--overlapped); background: var(--overlapped); }
.sample { display: inline-block; vertical-align: middle; margin-right: .5em; }
.graph { display: grid; grid-template-columns: fit-content(32%) minmax(0, 1fr) fit-content(32%); gap: 0 .6rem;
  max-width: 44rem; margin: .4rem 0 1rem; font-size: 13px; line-height: 26px; }
.graph div { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } .graph .soft { color: var(--soft); }
.ends-left { text-align: right; }
ul.keys { margin-bottom: .9rem; }
@media (max-width: 34rem) { pre span { display: block; } }
@media print { .tall { max-height: none; } pre { white-space: pre-wrap; } .finding { break-inside: avoid; } }
)css";

/// A part that is wider than the page scrolls in a box of its own, also by keyboard.
std::string evidence_of(const Finding& finding) {
  if (finding.evidence.empty()) return {};
  std::string lines;
  for (const Evidence& one : finding.evidence) {
    const std::string place = one.line > 0 ? text(':', one.line) : std::string();
    lines += text("<span>", escaped(clean(one.file)), place, "</span>  ", escaped(clean(one.text)), '\n');
  }
  return text("<pre role=\"region\" tabindex=\"0\" aria-label=\"Lines that show it\">", lines, "</pre>\n");
}

std::string description(std::string_view label, const std::string& words, std::string_view kind = {}) {
  if (words.empty()) return {};
  return text("<dt>", label, "</dt><dd", kind.empty() ? "" : text(" class=\"", kind, '"'), '>',
              escaped(clean(words)), "</dd>\n");
}

std::string finding_article(const Finding& finding) {
  return text("<article class=\"finding ", name(finding.severity), "\">\n<h3><strong class=\"severity\">",
              name(finding.severity), ":</strong> ", escaped(clean(finding.verdict)),
              "</h3>\n<p class=\"note\"><code>", escaped(finding.cause), "</code>, confidence ",
              finding.confidence, "</p>\n", evidence_of(finding), "<dl>\n",
              description("To do", finding.fix, "todo"), description("Expected effect", finding.effect),
              description("Does not apply when", finding.not_when),
              description("Applies to NCCL", finding.versions), "</dl>\n</article>\n");
}

std::string page_section(std::string_view heading, const std::string& note, const std::string& content) {
  return section(escaped(clean(heading)), escaped(clean(note)), content);
}

std::string section_table(const TextTable& one) {
  if (one.rows.empty()) return {};
  const auto cleaned = [](std::vector<std::string> cells) {
    std::ranges::transform(cells, cells.begin(), [](const std::string& cell) { return clean(cell); });
    return cells;
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : one.rows) rows.push_back(cleaned(row));
  return table(clean(one.caption), cleaned(one.heading), rows, one.words);
}

std::string head_of(const Report& report) {
  const bool well = report.findings.empty();
  const std::string_view severity = well ? "well" : name(report.findings.front().severity);
  const std::string words = well ? text("Nothing wrong is seen in ", clean(report.looked_at))
                                 : clean(report.findings.front().verdict);
  return text("<h1>weft-report: ", escaped(clean(report.subject)), "</h1>\n<p class=\"verdict ", severity,
              "\">", well ? std::string() : text("<strong class=\"severity\">", severity, ":</strong> "),
              escaped(words), ".</p>\n",
              well ? std::string()
                   : text("<p class=\"note\">",
                          escaped(text(tally(report.findings), " in ", clean(report.looked_at))), ".</p>\n"));
}

}  // namespace

std::string to_html(const Report& report) {
  std::string findings;
  for (const Finding& one : report.findings) findings += finding_article(one);
  std::string body = page_section("Findings", "", findings);
  for (const PageSection& one : report.sections) body += page_section(one.heading, one.note, one.html);
  for (const TextTable& one : report.tables) body += page_section(one.caption, one.note, section_table(one));
  return whole_page("weft-report: " + verdict(report), head_of(report) + body, report_style);
}

}  // namespace weft::report
