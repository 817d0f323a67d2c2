// The drawings of step time: where a step goes, how steps vary, and how they changed since an earlier run.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "common/page/markup.hpp"
#include "weft-scaling/pages/scaling_charts.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Strategy = ScalingPage::Strategy;

double share_of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// Figures that cannot be drawn as a length.
std::string remarks(const Strategy& one) {
  std::string words;
  if (one.link_busy_seconds > 0)
    words += text("The link is busy for ", duration(one.link_busy_seconds), ". ");
  if (one.slowest_seconds > 0) {
    words += text("Of the waiting, ", duration(one.slowest_seconds), " is for the slowest rank to come",
                  one.slowest_rank ? text(", most often rank ", *one.slowest_rank) : "", ".");
  }
  return words.empty() ? words : text("<p class=\"note\">", words, "</p>\n");
}

std::string parts_of(const Strategy& one, double longest) {
  struct Part {
    const char* kind;
    std::string what;
    double seconds;
  };
  const double least = 0.0005 * one.step_seconds;  // less would read "0.0 %"
  const bool overlap_known = one.overlapped_seconds > 0;
  const std::vector<Part> parts{
      {"compute", overlap_known ? "computing, nothing on the wire" : "computing", one.compute_seconds},
      {"overlapped", "computing, wire busy", one.overlapped_seconds},
      {"exposed", "waiting for communication", one.exposed_seconds}};
  std::string keys;
  std::string description;
  for (const Part& part : parts) {
    if (part.seconds <= least) continue;
    const std::string words = text(part.what, " ", duration(part.seconds), " (",
                                   percent(share_of(part.seconds, one.step_seconds)), ")");
    keys += key(part.kind, words);
    description += (description.empty() ? "" : "; ") + words;
  }
  Svg svg(text("Where a step of ", one.name, " goes"), description, 22);
  svg.rect({0, 1}, {0, 22}, "rail");
  double begin = 0;
  for (const Part& part : parts) {
    if (part.seconds <= least) continue;
    svg.rect({share_of(begin, longest), share_of(begin + part.seconds, longest)}, {0, 22}, part.kind,
             text(part.what, ": ", duration(part.seconds)));
    begin += part.seconds;
  }
  return text("<div class=\"bar\"><h3>", escaped(one.name), " <span>", duration(one.step_seconds),
              "</span></h3>\n", svg.str(), "<ul class=\"keys\">", keys, "</ul>\n", remarks(one), "</div>\n");
}

/// An axis across a drawing. It need not begin at 0.
class Axis {
 public:
  Axis(double low, double high) : low_(low), high_(high) {}
  double x(double value) const { return (value - low_) / (high_ - low_); }
  double low() const { return low_; }
  double high() const { return high_; }

  /// Draws lines down to `bottom` and numbers below. @param unit of the numbers, in units of the axis
  /// @param suffix after the last number, such as " ms"
  void draw(Svg& svg, double bottom, double unit, const char* suffix) const {
    const std::vector<double> places = ticks(low_ / unit, high_ / unit, 7);
    for (const double tick : places) {
      const double at = x(tick * unit);
      svg.line(at, 0, at, bottom, "grid");
      svg.text(at, bottom + 16, text(tick, tick == places.back() ? suffix : ""),
               at > 0.94   ? Anchor::end
               : at < 0.06 ? Anchor::start
                           : Anchor::middle,
               "soft");
    }
  }

 private:
  double low_;
  double high_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

constexpr std::size_t bins = 120;
constexpr double hill_top = 24;  // below the text of the row
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

/// From the shortest step to the longest that is no outlier. A step that took ten times as long must not
/// squeeze all others together; it is counted instead.
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

std::string parts_of_a_step(const std::vector<Strategy>& strategies) {
  double longest = 0;
  for (const Strategy& one : strategies) longest = std::max(longest, one.step_seconds);
  std::string result;
  for (const Strategy& one : strategies) {
    if (one.compute_seconds + one.overlapped_seconds + one.exposed_seconds > 0)
      result += parts_of(one, longest);
  }
  return result;
}

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

std::string ratios(const Comparison& comparison) {
  std::string notes;
  for (const std::string& one : comparison.only_before)
    notes += text("<li>", escaped(one), ": only in the earlier run</li>");
  for (const std::string& one : comparison.only_after)
    notes += text("<li>", escaped(one), ": not in the earlier run</li>");
  if (computing_changed(comparison))
    notes += "<li>nocomm sends nothing and changed: so did the machine or the computing</li>";
  if (!notes.empty()) notes = "<ul class=\"keys\">" + notes + "</ul>\n";
  if (comparison.rows.empty()) return notes;

  double low = 0.97;
  double high = 1.03;
  std::string description;
  std::vector<std::vector<std::string>> figures;
  for (const auto& row : comparison.rows) {
    low = std::min(low, row.low);
    high = std::max(high, row.high);
    description += text(description.empty() ? "" : "; ", row.strategy, ": ", fixed(row.ratio, 3), ", ",
                        name(row.verdict));
    figures.push_back({row.strategy, name(row.verdict), duration(row.before_seconds),
                       duration(row.after_seconds), fixed(row.ratio, 3),
                       text(fixed(row.low, 3), " to ", fixed(row.high, 3))});
  }
  const Axis axis(low - (high - low) * 0.04, high + (high - low) * 0.04);
  constexpr double row_height = 42;
  const double bottom = row_height * static_cast<double>(comparison.rows.size());
  Svg svg("Step time as a share of the earlier run", description, bottom + 24);
  svg.rect({axis.x(1 - tolerance), axis.x(1 + tolerance)}, {0, bottom}, "rail");
  axis.draw(svg, bottom, 1, "");
  svg.line(axis.x(1), 0, axis.x(1), bottom, "ideal");
  double y = 0;
  for (const auto& row : comparison.rows) {
    svg.text(0, y + 15, row.strategy, Anchor::start, "strong");
    svg.text(1, y + 15, name(row.verdict), Anchor::end, name(row.verdict));
    svg.line(axis.x(row.low), y + 28, axis.x(row.high), y + 28, "interval");
    svg.dot(axis.x(row.ratio), y + 28, "middle",
            text(fixed(row.ratio, 3), " (", fixed(row.low, 3), " to ", fixed(row.high, 3), ")"));
    y += row_height;
  }
  return svg.str() +
         table("Step time against the earlier run",
               {"strategy", "verdict", "earlier", "now", "ratio", "95\u00a0% interval"}, figures, 1) +
         notes;
}

}  // namespace weft::report
