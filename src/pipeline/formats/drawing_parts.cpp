#include "pipeline/formats/drawing_parts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/base/strings.hpp"
#include "pipeline/simulate/side_streams.hpp"

namespace weft::pipeline::detail {

const std::string_view drawing_style = R"css(
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

std::vector<Box> boxes(const Schedule& schedule, const Prediction& prediction, std::size_t device,
                       Nanoseconds grain) {
  const std::vector<Action>& row = schedule.rows[device];
  const std::vector<Nanoseconds>&begins = prediction.begins[device], &ends = prediction.ends[device];
  const auto length = [&](std::size_t entry) { return ends[entry] - begins[entry]; };
  std::vector<Box> result;
  for (std::size_t entry = 0; entry < row.size(); ++entry) {
    if (!is_compute(row[entry].type) && row[entry].type != ActionType::recompute) continue;
    if (length(entry) <= 0) continue;
    const bool joins = !result.empty() && length(entry) < grain &&
                       result.back().end - result.back().begin < grain &&
                       begins[entry] - result.back().end < grain;
    if (!joins) {
      result.push_back({entry, entry, 1, entry, begins[entry], ends[entry]});
      continue;
    }
    Box& box = result.back();
    box.last = entry;
    ++box.actions;
    box.end = ends[entry];
    if (length(entry) > length(box.shown)) box.shown = entry;
  }
  return result;
}

std::vector<Wait> waits(const Schedule& schedule, const Prediction& prediction, std::size_t device,
                        Nanoseconds least) {
  const std::vector<Action>& row = schedule.rows[device];
  std::vector<Wait> result;
  Nanoseconds free = 0;
  for (std::size_t entry = 0; entry < row.size(); ++entry) {
    const Nanoseconds end = prediction.ends[device][entry];
    if (row[entry].awaits && SideStreams::has(row[entry].type) && end > free && end - free >= least)
      result.push_back({entry, free, end});
    free = std::max(free, end);
  }
  return result;
}

std::string pixels(double value) {
  std::array<char, 64> digits{};
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(),
                                         std::round(value * 100) / 100, std::chars_format::fixed);
  return {digits.data(), end};
}

std::string escaped(std::string_view raw) {
  std::string result;
  for (const char c : weft::detail::printable(raw)) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace weft::pipeline::detail
