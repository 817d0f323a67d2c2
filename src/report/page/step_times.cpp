// How steps vary.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "report/page/axis.hpp"
#include "report/page/markup.hpp"
#include "report/page/scaling_charts.hpp"
#include "report/page/table.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Strategy = ScalingPage::Strategy;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

constexpr std::size_t bins = 120;
constexpr double hill_top = 24;  // below the row's words
constexpr double hill_height = 34;
constexpr double hill_row = hill_top + hill_height + 12;

/// @return how many samples lie beyond the axis
std::size_t draw_hill(Svg& svg, const Axis& axis, const Strategy& one, double y) {
  std::vector<std::size_t> counts(bins);
  std::size_t beyond = 0;
  for (const double seconds : one.samples) {
    const double share = axis.x(seconds);
    if (share > 1) ++beyond;
    const double bin = std::clamp(share * bins, 0.0, static_cast<double>(bins - 1));
    if (share <= 1) ++counts[static_cast<std::size_t>(bin)];
  }
  const auto highest = static_cast<double>(std::max<std::size_t>(1, std::ranges::max(counts)));
  const double floor = y + hill_top + hill_height;
  for (std::size_t i = 0; i < bins; ++i) {
    if (counts[i] == 0) continue;
    const double left = static_cast<double>(i) / bins;
    // One step stays visible beside a thousand.
    const double height = std::max(3.0, hill_height * static_cast<double>(counts[i]) / highest);
    const double from = axis.low() + left * (axis.high() - axis.low());
    svg.rect({left, left + 0.8 / bins}, {floor - height, floor}, "backward",
             text(counts[i], counts[i] == 1 ? " step of " : " steps of about ", duration(from)));
  }
  svg.line(0, floor, 1, floor, "base");
  return beyond;
}

/// From the shortest step to the last that is no outlier: one that took ten times as long must not press all
/// others together. It is counted instead.
Axis axis_of(const std::vector<Strategy>& timed) {
  double low = std::numeric_limits<double>::infinity();
  double longest = 0;
  double usual = 0;
  for (const Strategy& one : timed) {
    low = std::min(low, std::ranges::min(one.samples));
    longest = std::max(longest, std::ranges::max(one.samples));
    const double middle = median(one.samples);
    std::vector<double> distances;
    for (const double seconds : one.samples) distances.push_back(std::abs(seconds - middle));
    usual = std::max(usual, middle + std::max(10 * median(distances), 0.02 * middle));
  }
  const double high = std::min(longest, usual);
  const double margin = std::max((high - low) * 0.02, high * 0.005);
  return {low - margin, high + margin};
}

}  // namespace

std::string step_times(const std::vector<Strategy>& strategies) {
  std::vector<Strategy> timed;
  std::ranges::copy_if(strategies, std::back_inserter(timed),
                       [](const Strategy& one) { return !one.samples.empty(); });
  if (timed.empty()) return {};
  std::string description;
  std::vector<std::vector<std::string>> figures;
  for (const Strategy& one : timed) {
    const auto [shortest, longest] = std::ranges::minmax(one.samples);
    figures.push_back({one.name, text(one.samples.size()), duration(shortest), duration(median(one.samples)),
                       duration(longest)});
    description += text(description.empty() ? "" : "; ", one.name, ": ", one.samples.size(), " steps from ",
                        duration(shortest), " to ", duration(longest), ", median ", figures.back()[3]);
  }
  const Axis axis = axis_of(timed);
  const double bottom = hill_row * static_cast<double>(timed.size());
  Svg svg("Step times", description, bottom + 24);
  axis.draw(svg, bottom - 8, 1e-3, "\u00a0ms");
  double y = 0;
  for (const Strategy& one : timed) {
    const double middle = axis.x(median(one.samples));
    const std::size_t beyond = draw_hill(svg, axis, one, y);
    svg.text(0, y + 15, one.name, Anchor::start, "strong");
    if (beyond > 0) {
      svg.text(1, y + 15, text(beyond, " beyond, up to ", duration(std::ranges::max(one.samples))),
               Anchor::end, "soft");
    }
    svg.line(middle, y + hill_top - 4, middle, y + hill_top + hill_height, "middle");
    y += hill_row;
  }
  return svg.str() + table("Step times", {"strategy", "steps", "shortest", "median", "longest"}, figures);
}

}  // namespace weft::report
