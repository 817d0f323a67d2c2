// What benchmarks in the logs reached, beside what the links allow.

#include <algorithm>
#include <cmath>

#include "common/page/markup.hpp"
#include "weft-report/nccl/judge.hpp"
#include "weft-report/output/run_sections.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

using bandwidth::Judged;

constexpr std::size_t most_charts = 6;
constexpr std::size_t most_sizes = 64;
constexpr double chart_height = 230;

constexpr std::string_view how_to =
    "<p class=\"note\">The logs have no table of a benchmark. To see what part of the links a job uses, run "
    "nccl-tests on the same machines and "
    "give its output with the logs:</p>\n<pre>mpirun -np 16 -x NCCL_DEBUG=INFO all_reduce_perf -b 8 -e 8G -f "
    "2 -g 1 &gt; logs/all_reduce.txt</pre>\n";

std::string title_of(const Judged& one) {
  std::string words = one.op.empty() ? "operation not stated" : clean(one.op);
  if (one.shape.ranks > 0) words += text(", ", one.shape.ranks, " ranks");
  if (one.shape.nodes > 1) words += text(" on ", one.shape.nodes, " nodes");
  return words;
}

/// For each size the fastest of its rows, by size.
std::vector<std::pair<double, double>> curve_of(const bandwidth::Table& table) {
  std::map<std::int64_t, double> best;
  for (const bandwidth::Row& row : table.rows) {
    if (row.bytes > 0) best[row.bytes] = std::max(best[row.bytes], row.best().busbw);
  }
  std::vector<std::pair<double, double>> places;
  for (const auto& [bytes, speed] : best) places.emplace_back(std::log2(static_cast<double>(bytes)), speed);
  return places;
}

struct Axes {
  double first = 0;  ///< log2 of bytes
  double last = 1;
  double top = 1;  ///< GB/s
  double x(double size) const { return 0.12 + 0.86 * (size - first) / std::max(last - first, 1e-9); }
  double y(double speed) const { return chart_height - 26 - (chart_height - 48) * speed / top; }
};

void draw_axes(const Axes& axes, Svg& svg) {
  for (const double speed : ticks(0, axes.top, 5)) {
    svg.line(0, axes.y(speed), 1, axes.y(speed), "grid");
    svg.text(0, axes.y(speed) - 3, text(fixed(speed, speed < 10 && axes.top < 10 ? 1 : 0), " GB/s"),
             Anchor::start, "soft");
  }
  const double step = std::max(1.0, std::ceil((axes.last - axes.first) / 4));
  for (double size = std::ceil(axes.first); size <= axes.last + 1e-9; size += step) {
    const Anchor anchor = size + step > axes.last + 1e-9 && size > axes.first ? Anchor::end
                          : size == axes.first                                ? Anchor::start
                                                                              : Anchor::middle;
    svg.text(axes.x(size), chart_height - 6, bandwidth::size_text(static_cast<std::int64_t>(std::exp2(size))),
             anchor, "soft");
  }
}

std::string chart_of(const Judged& one) {
  const auto places = curve_of(*one.table);
  if (places.size() < 2) return {};
  const double bound = one.speed.bound.busbw;
  Axes axes{.first = places.front().first, .last = places.back().first, .top = bound};
  for (const auto& [size, speed] : places) axes.top = std::max(axes.top, speed);
  if (!(axes.top > 0) || !std::isfinite(axes.top)) return {};
  axes.top *= 1.06;
  Svg svg("Bus bandwidth of " + title_of(one),
          text("It reaches ", fixed(one.speed.busbw, 1), " GB/s at the largest size",
               bound > 0 ? text("; the links allow ", fixed(bound, 1), " GB/s") : std::string(), "."),
          chart_height);
  draw_axes(axes, svg);
  if (bound > 0) {
    svg.line(0, axes.y(bound), 1, axes.y(bound), "ideal");
    svg.text(1, axes.y(bound) + 14, text("bound ", fixed(bound, 1), " GB/s, ", name(one.speed.bound.limit)),
             Anchor::end, "soft");
  }
  for (std::size_t i = 1; i < places.size(); ++i)
    svg.line(axes.x(places[i - 1].first), axes.y(places[i - 1].second), axes.x(places[i].first),
             axes.y(places[i].second), "curve hue-0");
  if (places.size() <= most_sizes) {
    for (const auto& [size, speed] : places) {
      svg.dot(axes.x(size), axes.y(speed), "weak",
              text(bandwidth::size_text(static_cast<std::int64_t>(std::llround(std::exp2(size)))), ": ",
                   fixed(speed, 2), " GB/s"));
    }
  }
  return text("<h3>", escaped(title_of(one)), "</h3>\n", svg.str());
}

}  // namespace

PageSection bandwidth_reached(const nccl::Job& job) {
  const std::vector<Judged> tables = bandwidth::judge(job);
  PageSection section{.heading = "Bandwidth by size"};
  if (tables.empty()) {
    section.html = how_to;
    return section;
  }
  section.note =
      "Bus bandwidth by size, in GB/s: what a ring would move over its slowest link. The bound is what the "
      "links allow, of which the logs or "
      "the GPU's name tell.";
  std::size_t charts = 0;
  for (const Judged& one : tables) {
    const std::string chart = charts < most_charts ? chart_of(one) : std::string();
    if (!chart.empty()) ++charts;
    section.html += chart;
  }
  return section;
}

}  // namespace weft::report
