#pragma once
// The drawings of the scaling page, each with its figures beside it. HTML; empty where there is nothing to
// draw.

#include <string>
#include <vector>

#include "report/page/scaling_page.hpp"

namespace weft::report {

/// A bar for each strategy: computing, overlapped, waiting.
std::string parts_of_a_step(const std::vector<ScalingPage::Strategy>& strategies);
/// Bars of what is left of the tokens per second, of nocomm's and of a single rank's.
std::string efficiency_bars(const std::vector<ScalingPage::Strategy>& strategies);
/// Efficiency over ranks, of a sweep.
std::string efficiency_lines(const std::vector<ScalingPage::Point>& points);
/// How the steps of each strategy vary.
std::string step_times(const std::vector<ScalingPage::Strategy>& strategies);
/// The held-out loss over steps, and how far each strategy is from the first that sends whole gradients.
std::string loss_curves(const std::vector<ScalingPage::Strategy>& strategies);
/// The ratios and their intervals.
std::string ratios(const Comparison& comparison);
/// A lane for each rank and track.
std::string overlap(const std::vector<ScalingPage::Span>& timeline);

/// Spans of a lane as they are drawn: neighbours too thin to be told apart become one.
struct Mark {
  double begin = 0;
  double end = 0;
  double busy = 0;  ///< seconds within that are covered
  int spans = 1;
  int level = 0;  ///< spans at the same time stand below each other
  std::string name;
};

/// @param pixel seconds; what is shorter is joined with its neighbours until it is a pixel wide
std::vector<Mark> drawn(std::vector<ScalingPage::Span> lane, double pixel);

}  // namespace weft::report
