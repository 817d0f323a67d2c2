#pragma once
// The drawings of the scaling page, each with a table of its figures. HTML; empty where there is nothing to
// draw.

#include <string>
#include <vector>

#include "weft-scaling/pages/scaling_page.hpp"

namespace weft::report {

/// A bar for each strategy: computing, overlapped, waiting.
std::string parts_of_a_step(const std::vector<ScalingPage::Strategy>& strategies);
/// Bars of the tokens per second as a share of those of nocomm, and of a single rank.
std::string efficiency_bars(const std::vector<ScalingPage::Strategy>& strategies);
/// The efficiency of a sweep over the number of ranks.
std::string efficiency_lines(const std::vector<ScalingPage::Point>& points);
/// How the steps of each strategy vary.
std::string step_times(const std::vector<ScalingPage::Strategy>& strategies);
/// The held-out loss over steps, and how far each strategy is from the first that sends whole gradients.
std::string loss_curves(const std::vector<ScalingPage::Strategy>& strategies);
/// The ratios to an earlier run and their intervals.
std::string ratios(const Comparison& comparison);
/// The timeline of one step: a row for each rank and track. @param strategy whose step it is: its median step stands beside; may be null
std::string overlap(const std::vector<ScalingPage::Span>& timeline, const ScalingPage::Strategy* strategy);

/// A rectangle of a row: one span, or neighbours too thin to be told apart.
struct Mark {
  double begin = 0;
  double end = 0;
  double busy = 0;  ///< seconds within that are covered
  int spans = 1;
  int level = 0;  ///< spans at the same time are drawn below each other
  std::string name;
};

/// @param pixel seconds; shorter spans are joined with their neighbours until they are a pixel wide
std::vector<Mark> drawn(std::vector<ScalingPage::Span> spans, double pixel);

}  // namespace weft::report
