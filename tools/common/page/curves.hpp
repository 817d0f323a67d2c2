#pragma once
// Curves over steps, each with a line to a label of its own, so that curves on top of each other can be told
// apart; labels never overlap.
//
// The result is two cells of a grid: the drawing, and the column of labels, which is as wide as the longest.
// Drawings in one grid have their steps aligned. Pure values, any thread.
//
//   page += text("<div class=\"curves\">", curves_over_steps({.title = "Loss", ...}, curves), "</div>");

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/page/markup.hpp"

namespace weft::report {

/// The value where there is nothing to draw.
inline constexpr double not_drawn = std::numeric_limits<double>::quiet_NaN();

struct Curve {
  struct Place {
    std::int64_t step = 0;
    double value = 0;
  };

  std::string name;
  std::string look;           ///< from look_of; the same for the same strategy in every drawing
  std::vector<Place> places;  ///< ascending steps
};

struct CurvesDrawing {
  std::string title;
  double least_height = 0;                 ///< labels may need more
  Range values;                            ///< the range of the axis
  double unit = 1;                         ///< of the numbers on the axis
  std::string suffix;                      ///< of the numbers on the axis
  std::string (*words)(double) = nullptr;  ///< writes a value for a label
};

/// Classes of the style: hue and dashes of the i-th curve. Twenty differ.
std::string look_of(std::size_t i);

/// HTML. @param curves at least one, of at least one place each
std::string curves_over_steps(const CurvesDrawing& drawing, const std::vector<Curve>& curves);

/// Positions of labels as close as possible to `wanted` (ascending): in that order, at least `distance`
/// apart, and at least half a distance from 0 and `bottom`, if all fit between. Two passes: down, then up.
std::vector<double> apart(const std::vector<double>& wanted, double distance, double bottom);

}  // namespace weft::report
