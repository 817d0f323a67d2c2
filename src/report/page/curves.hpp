#pragma once
// Curves over steps, each of which leads to a label of its own: also those that lie on top of each other can
// be told apart, and labels never do.
//
// Two cells of a grid: the drawing, and the column of its labels, which is as wide as the longest of them.
// Drawings of one grid have their steps below each other. Pure values, any thread.
//
//   page += text("<div class=\"curves\">", curves_over_steps({.title = "Loss", ...}, curves), "</div>");

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/page/markup.hpp"

namespace weft::report {

/// The value of a place where there is nothing to draw.
inline constexpr double not_drawn = std::numeric_limits<double>::quiet_NaN();

struct Curve {
  struct Place {
    std::int64_t step = 0;
    double value = 0;
  };

  std::string name;
  std::string look;           ///< of look_of, the same for the same thing in every drawing
  std::vector<Place> places;  ///< by step
};

struct CurvesDrawing {
  std::string title;
  double least_height = 0;                 ///< labels may need more
  Range values;                            ///< what the axis spans
  double unit = 1;                         ///< of the axis' figures
  std::string suffix;                      ///< of the axis' figures
  std::string (*words)(double) = nullptr;  ///< a value as labels have it
};

/// Kinds of the style: hue and dashes of the i-th curve. Twenty differ.
std::string look_of(std::size_t i);

/// HTML. @param curves at least one, of at least one place each
std::string curves_over_steps(const CurvesDrawing& drawing, const std::vector<Curve>& curves);

/// Where labels stand that want to be at `wanted` (ascending): in that order, `distance` from each other,
/// moved only where they must, and half a distance within 0 and `bottom`, where all fit between.
std::vector<double> apart(const std::vector<double>& wanted, double distance, double bottom);

}  // namespace weft::report
