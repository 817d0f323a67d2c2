#include "common/page/page.hpp"

#include "common/page/markup.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

// Kinds of time differ in lightness and by hatching, not in hue alone, in both themes. Print is always light.
constexpr std::string_view style = R"css(
:root { color-scheme: light dark;
  --ground: #fff; --raised: #f4f6f8; --ink: #1a1f26; --soft: #56606c; --line: #d5dbe1;
  --compute: #a9c6e8; --overlapped: #2f6fb0; --exposed: #d9601a; --hatch: #8f3a07;
  --forward: #cfdff2; --backward: #8fb4dd; --update: #b9bfe6; --wire: #2f8f83; --plum: #8a4fa3;
  --good: #0b6b50; --bad: #a8320a; }
@media screen and (prefers-color-scheme: dark) { :root {
  --ground: #14181d; --raised: #1d232a; --ink: #e4e8ec; --soft: #9aa5b1; --line: #323b45;
  --compute: #35587d; --overlapped: #7fb5ec; --exposed: #f08a4b; --hatch: #a3481a;
  --forward: #29415c; --backward: #3f6a96; --update: #4b4f86; --wire: #4fb8aa; --plum: #c79be0;
  --good: #5fcfa8; --bad: #ff9d6e; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
main { max-width: 64rem; margin: 0 auto; padding: 2.2rem 1.25rem 3rem; }
h1 { font-size: 1rem; font-weight: 600; color: var(--soft); margin: 0 0 .6rem; }
.verdict { font-size: 1.45rem; line-height: 1.35; margin: 0 0 1.8rem; max-width: 48rem; text-wrap: pretty; }
section { margin: 2.6rem 0 0; }
h2 { font-size: 1.1rem; margin: 0 0 .2rem; }
h3 { font-size: .95rem; margin: 0 0 .3rem; display: flex; justify-content: space-between; }
h3 span { font-weight: 400; }
p.note, ul.keys { color: var(--soft); font-size: .87rem; margin: 0 0 .9rem; }
p.note { max-width: 48rem; }
svg { display: block; overflow: visible; }
svg text { fill: var(--ink); font-size: 13px; paint-order: stroke; stroke: var(--ground); stroke-width: 3px; }
svg text.soft { fill: var(--soft); font-size: 12px; }
svg text.strong { font-weight: 600; }
svg text.within { font-size: 11px; stroke: none; pointer-events: none; }
.rail { fill: var(--raised); }
.compute { fill: var(--compute); background: var(--compute); }
.overlapped { fill: var(--overlapped); background: var(--overlapped); }
.exposed { fill: url(#hatch);
  background: repeating-linear-gradient(135deg, var(--hatch) 0 1.5px, var(--exposed) 1.5px 5px); }
.ground-of-hatch { fill: var(--exposed); } .line-of-hatch { fill: var(--hatch); }
.forward { fill: var(--forward); background: var(--forward); }
.backward { fill: var(--backward); background: var(--backward); }
.update { fill: var(--update); background: var(--update); }
.wire { fill: var(--wire); background: var(--wire); }
.apart { stroke: var(--ground); stroke-width: .75; }
.band { fill: var(--exposed); opacity: .16; }
.grid { stroke: var(--line); } .base { stroke: var(--soft); stroke-width: .75; }
.ideal { stroke: var(--soft); stroke-dasharray: 4 3; }
line.middle { stroke: var(--ink); stroke-width: 2; } circle.middle { fill: var(--ink); }
.interval { stroke: var(--ink); stroke-width: 2; }
line.weak { stroke: var(--overlapped); stroke-width: 2; }
line.strong { stroke: var(--exposed); stroke-width: 2; stroke-dasharray: 7 4; }
circle.weak { fill: var(--overlapped); } rect.strong { fill: var(--exposed); }
.key.weak { background: var(--overlapped); border-radius: 50%; } .key.strong { background: var(--exposed); }
svg text.improved { fill: var(--good); font-weight: 600; } svg text.worse { fill: var(--bad); font-weight: 600; }
ul.keys { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .15rem 1.3rem; margin-top: .4rem; }
.bar ul.keys { margin-bottom: .1rem; }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .45em; }
.bar { margin: 1.1rem 0; }
.curve { stroke-width: 2; } .lead { stroke-width: 1.5; }
.hue-0 { stroke: var(--overlapped); } .hue-1 { stroke: var(--exposed); } .hue-2 { stroke: var(--wire); }
.hue-3 { stroke: var(--plum); } .hue-4 { stroke: var(--ink); }
.dash-1 { stroke-dasharray: 7 4; } .dash-2 { stroke-dasharray: 2 2.5; } .dash-3 { stroke-dasharray: 10 3 2 3; }
.curves { display: grid; grid-template-columns: minmax(0, 1fr) fit-content(45%); gap: 0 .35rem; margin: .8rem 0; }
.curves h3 { grid-column: 1 / -1; margin: 1.1rem 0 .6rem; }
.ends { font-size: 12px; line-height: 16px; min-width: 0; }
.ends div { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.timeline { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0 .6rem; margin: .8rem 0; }
.labels { padding-top: 2px; font-size: 11px; line-height: 16px; color: var(--soft); text-align: right; white-space: nowrap; }
.labels .first { color: var(--ink); }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .87rem; width: 100%; }
th, td { padding: .32rem .55rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child { padding-left: 0; position: sticky; left: 0; background: var(--ground); }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; white-space: normal; }
tbody th { font-weight: 600; }
.words { text-align: left; }
table.facts { width: auto; } table.facts th { color: var(--soft); font-weight: 500; }
table.facts th, table.facts td { text-align: left; white-space: normal; vertical-align: top; overflow-wrap: anywhere; }
table.facts th { white-space: nowrap; }
@media (max-width: 34rem) { main { padding: 1.3rem .9rem 2rem; } .verdict { font-size: 1.2rem; } }
@media print { body { font-size: 10pt; } main { max-width: none; padding: 0; } .scroll { overflow: visible; }
  section, .bar, svg, tr { break-inside: avoid; } h2 { break-after: avoid; } th:first-child { position: static; }
  th, td { padding: .2rem .4rem; font-size: 8pt; } }
)css";

// The hatching of waiting time, for all that is of the class "exposed". Safari finds patterns only in a drawing that is part of the page,
// so it cannot have display: none.
constexpr std::string_view hatch =
    R"svg(<svg width="0" height="0" aria-hidden="true" style="position:absolute"><defs><pattern id="hatch" width="5" height="5" )svg"
    R"svg(patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="5" height="5" class="ground-of-hatch"/>)svg"
    R"svg(<rect width="1.5" height="5" class="line-of-hatch"/></pattern></defs></svg>)svg";

constexpr std::string_view head =
    R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
)html";

}  // namespace

std::string whole_page(std::string_view title, std::string_view content, std::string_view more_style) {
  return text(head, "<title>", escaped(title), "</title>\n<style>", style, more_style,
              "</style>\n</head>\n<body>\n", hatch, "\n<main>\n", content, "</main>\n</body>\n</html>\n");
}

std::string section(std::string_view heading, std::string_view note, std::string_view content) {
  if (content.empty()) return {};
  return text("<section><h2>", heading, "</h2>\n",
              note.empty() ? std::string() : text("<p class=\"note\">", note, "</p>\n"), content,
              "</section>\n");
}

}  // namespace weft::report
