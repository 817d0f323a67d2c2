// Efficiency: the speed as a share of nocomm and of a single rank, or over numbers of ranks.

#include <algorithm>
#include <cmath>

#include "common/page/markup.hpp"
#include "weft-scaling/pages/scaling_charts.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Strategy = ScalingPage::Strategy;

using Point = ScalingPage::Point;

struct Share {
  std::string what;
  double value;
};

std::vector<Share> shares_of(const std::vector<Strategy>& strategies) {
  std::vector<Share> shares;
  for (const Strategy& one : strategies) {
    if (one.efficiency_vs_nocomm && one.name != "nocomm")
      shares.push_back({one.name + ": speed vs nocomm", *one.efficiency_vs_nocomm});
    if (one.efficiency_vs_single)
      shares.push_back({one.name + ": speed vs one rank alone", *one.efficiency_vs_single});
  }
  return shares;
}

}  // namespace

std::string efficiency_bars(const std::vector<Strategy>& strategies) {
  const std::vector<Share> shares = shares_of(strategies);
  if (shares.empty()) return {};
  double whole = 1;
  std::string description;
  for (const Share& share : shares) {
    whole = std::max(whole, share.value);
    description += text(description.empty() ? "" : "; ", share.what, ": ", percent(share.value));
  }
  constexpr double row = 46;
  const double bottom = row * static_cast<double>(shares.size());
  Svg svg("Efficiency", description, bottom + 6);
  double y = 0;
  for (const Share& share : shares) {
    svg.text(0, y + 14, share.what);
    svg.text(1, y + 14, percent(share.value), Anchor::end, "strong");
    svg.rect({0, 1 / whole}, {y + 21, y + 35}, "rail");
    svg.rect({0, share.value / whole}, {y + 21, y + 35}, "backward", percent(share.value));
    svg.line(1 / whole, y + 18, 1 / whole, y + 38, "ideal");
    y += row;
  }
  return svg.str() +
         "<p class=\"note\">The dashed line is 100\u00a0%. One rank alone has the machine to itself.</p>\n";
}

std::string efficiency_lines(const std::vector<Point>& points) {
  if (points.empty()) return {};
  double least = 1;
  double most = 1;
  int fewest = points.front().ranks;
  int ranks = fewest;
  for (const Point& point : points) {
    least = std::min(least, point.efficiency);
    most = std::max(most, point.efficiency);
    fewest = std::min(fewest, point.ranks);
    ranks = std::max(ranks, point.ranks);
  }
  const double low = least > 0.55 ? 0.5 : 0;
  const double high = most + (most - low) * 0.06;
  constexpr double bottom = 230;
  const auto x = [&](int at) {
    return fewest == ranks ? 0.5
                           : 0.12 + 0.82 * std::log(at / double(fewest)) / std::log(ranks / double(fewest));
  };
  const auto y = [&](double share) { return bottom - bottom * (share - low) / (high - low); };

  std::string description;
  std::vector<std::vector<std::string>> rows;
  for (const Point& point : points) {
    description += text(description.empty() ? "" : "; ", point.scaling, " on ", point.ranks, ": ",
                        percent(point.efficiency));
    rows.push_back({point.scaling, text(point.ranks), percent(point.efficiency), duration(point.step_seconds),
                    grouped(point.tokens_per_second)});
  }
  Svg svg("Efficiency over numbers of ranks", description, bottom + 26);
  for (const double tick : ticks(low * 100, high * 100, 7)) {
    svg.line(0, y(tick / 100), 1, y(tick / 100), "grid");
    svg.text(0, y(tick / 100) - 4, text(fixed(tick, 0), "\u00a0%"), Anchor::start, "soft");
  }
  svg.line(0, y(1), 1, y(1), "ideal");
  svg.text(1, y(1) - 5, "ideal", Anchor::end, "soft");
  std::vector<int> labelled;
  for (const Point& point : points) {
    if (std::ranges::find(labelled, point.ranks) != labelled.end()) continue;
    labelled.push_back(point.ranks);
    svg.text(x(point.ranks), bottom + 18, text(point.ranks, point.ranks == 1 ? " rank" : " ranks"),
             Anchor::middle, "soft");
  }
  for (const char* scaling : {"weak", "strong"}) {
    const Point* last = nullptr;
    for (const Point& point : points) {
      if (point.scaling != scaling) continue;
      if (last != nullptr)
        svg.line(x(last->ranks), y(last->efficiency), x(point.ranks), y(point.efficiency), scaling);
      last = &point;
    }
    for (const Point& point : points) {
      if (point.scaling != scaling) continue;
      const std::string tip = text(scaling, ", ", point.ranks, " ranks: ", percent(point.efficiency));
      if (point.scaling == "weak") {
        svg.dot(x(point.ranks), y(point.efficiency), "weak", tip);
      } else {
        svg.square(x(point.ranks), y(point.efficiency), "strong", tip);
      }
    }
  }
  return text(svg.str(), "<ul class=\"keys\">",
              key("weak", "weak scaling: every rank keeps its batch (round)"),
              key("strong", "strong scaling: all ranks share one batch (square)"), "</ul>\n",
              table("Efficiency over numbers of ranks",
                    {"scaling", "ranks", "efficiency", "step", "tokens/s"}, rows));
}

}  // namespace weft::report
