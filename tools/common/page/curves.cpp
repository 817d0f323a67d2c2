#include "common/page/curves.hpp"

#include <algorithm>
#include <cmath>

#include "weft/core/error.hpp"

namespace weft::report {
namespace {

constexpr double axis_left = 0.1;     // share of the width: the numbers of the axis stand before the curves
constexpr double axis_right = 0.955;  // beyond this, lines lead to the labels
constexpr double label_height = 16;

/// Where a curve ends. The label says if that is before the last step.
struct End {
  const Curve* curve;
  const Curve::Place* last;

  bool whole() const { return last == &curve->places.back(); }
  std::string words(const CurvesDrawing& drawing) const {
    return whole() ? text(curve->name, " ", drawing.words(last->value))
                   : text(curve->name, " until step ", last->step);
  }
};

/// Sorted by value, highest first.
std::vector<End> ends_of(const std::vector<Curve>& curves) {
  std::vector<End> ends;
  for (const Curve& one : curves) {
    const Curve::Place* last = nullptr;
    for (const Curve::Place& place : one.places)
      if (!std::isnan(place.value)) last = &place;
    if (last != nullptr) ends.push_back({&one, last});
  }
  std::ranges::stable_sort(ends, std::ranges::greater{}, [](const End& end) { return end.last->value; });
  return ends;
}

std::string description(const CurvesDrawing& drawing, const std::vector<End>& ends) {
  std::string words;
  for (const End& end : ends) words += text(words.empty() ? "" : "; ", end.words(drawing));
  return words;
}

/// Converts steps and values to positions in the drawing.
class Frame {
 public:
  Frame(const CurvesDrawing& drawing, const std::vector<Curve>& curves, double bottom)
      : drawing_(drawing), bottom_(bottom), first_(curves.front().places.front().step), last_(first_ + 1) {
    for (const Curve& one : curves) {
      first_ = std::min(first_, one.places.front().step);
      last_ = std::max(last_, one.places.back().step);
    }
  }

  double x(std::int64_t step) const {
    return axis_left + (axis_right - axis_left) * static_cast<double>(step - first_) /
                           static_cast<double>(last_ - first_);
  }
  double y(double value) const {
    return bottom_ * (drawing_.values.end - value) / (drawing_.values.end - drawing_.values.begin);
  }

  void draw_axes(Svg& svg) const {
    const Range& values = drawing_.values;
    for (const double tick : ticks(values.begin / drawing_.unit, values.end / drawing_.unit, 6)) {
      const double at = y(tick * drawing_.unit);
      svg.line(0, at, axis_right, at, tick == 0 ? "ideal" : "grid");
      constexpr double letters = 10;  // a number at the very top would stand outside
      if (at > letters) svg.text(0, at - 4, text(tick, drawing_.suffix), Anchor::start, "soft");
    }
    svg.line(axis_right, 0, axis_right, bottom_, "grid");
    const std::vector<double> steps = ticks(static_cast<double>(first_), static_cast<double>(last_), 4);
    for (const double tick : steps) {
      if (std::floor(tick) != tick) continue;  // no half steps
      const double at = x(static_cast<std::int64_t>(tick));
      svg.text(at, bottom_ + 18, text(tick, tick == steps.back() ? "\u00a0steps" : ""),
               at > 0.9 ? Anchor::end : Anchor::middle, "soft");
    }
  }

  void draw(Svg& svg, const Curve& one) const {
    for (std::size_t i = 1; i < one.places.size(); ++i) {
      const auto& [from, from_value] = one.places[i - 1];
      const auto& [to, to_value] = one.places[i];
      if (std::isnan(from_value) || std::isnan(to_value)) continue;
      svg.line(x(from), y(from_value), x(to), y(to_value), "curve " + one.look);
    }
  }

 private:
  const CurvesDrawing& drawing_;
  double bottom_;
  std::int64_t first_;
  std::int64_t last_;
};

}  // namespace

std::string look_of(std::size_t i) {
  constexpr std::size_t hues = 5;
  constexpr std::size_t dashes = 4;  // shares no factor with the hues
  return text("hue-", i % hues, " dash-", i % dashes);
}

std::vector<double> apart(const std::vector<double>& wanted, double distance, double bottom) {
  std::vector<double> places = wanted;
  double free = distance / 2;
  for (double& place : places) {
    place = std::max(place, free);
    free = place + distance;
  }
  free = bottom - distance / 2;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    *place = std::min(*place, free);
    free = *place - distance;
  }
  return places;
}

std::string curves_over_steps(const CurvesDrawing& drawing, const std::vector<Curve>& curves) {
  const std::vector<End> ends = ends_of(curves);
  const double bottom = std::max(drawing.least_height, label_height * static_cast<double>(ends.size()));
  const Frame frame(drawing, curves, bottom);
  Svg svg(drawing.title, description(drawing, ends), bottom + 26);
  frame.draw_axes(svg);
  for (const Curve& one : curves) frame.draw(svg, one);

  std::vector<double> wanted;
  for (const End& end : ends) wanted.push_back(frame.y(end.last->value));
  const std::vector<double> places = apart(wanted, label_height, bottom);
  std::string labels;
  double below = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    // A curve that ended earlier gets a short line before its label, like the key of a legend.
    svg.line(axis_right, ends[i].whole() ? wanted[i] : places[i], 1, places[i],
             "lead " + ends[i].curve->look);
    const double above = places[i] - label_height / 2;
    labels += text("<div style=\"margin-top:", fixed(above - below, 1), "px\">",
                   escaped(ends[i].words(drawing)), "</div>");
    below = above + label_height;
  }
  return text("<div>", svg.str(), "</div><div class=\"ends\" aria-hidden=\"true\">", labels, "</div>\n");
}

}  // namespace weft::report
