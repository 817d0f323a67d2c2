#pragma once
// Colours of a drawing, for light ground and dark. Hues are Okabe and Ito's (2008), which differ for all
// common kinds of colour blindness; letters are dark on light boxes, and light on dark ones.

#include <string_view>

namespace weft::pipeline::detail {

inline constexpr std::string_view drawing_style = R"css(
.schedule { color-scheme: light dark; --ground: #fff; --ink: #1a1f26; --soft: #56606c; --line: #e2e7ec;
  --f: #64b5ea; --b: #eba436; --w: #2fae8a; --r: #d891bb; --bound: #a8320a;
  font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
@media screen and (prefers-color-scheme: dark) { .schedule { --ground: #14181d; --ink: #f0f3f6; --soft: #9aa5b1;
  --line: #2a323b; --f: #1f6ea8; --b: #a0650a; --w: #0c7457; --r: #94507b; --bound: #ff9d6e; } }
.schedule .ground { fill: var(--ground); }
.schedule text { fill: var(--ink); font-size: 11px; stroke: none; }
.schedule .title { font-size: 13px; font-weight: 600; }
.schedule .soft { fill: var(--soft); }
.schedule .strong { fill: var(--bound); font-weight: 600; }
.schedule .in { text-anchor: middle; pointer-events: none; }
.schedule .f { fill: var(--f); } .schedule .b { fill: var(--b); }
.schedule .w { fill: var(--w); } .schedule .r { fill: var(--r); }
.schedule .line { stroke: var(--line); }
.schedule .wait { stroke: var(--ink); stroke-width: 1.5; }
.schedule .bound { stroke: var(--bound); stroke-width: 1.5; stroke-dasharray: 5 3; }
)css";

}  // namespace weft::pipeline::detail
