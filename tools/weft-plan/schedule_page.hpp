#pragma once
// The page that compares a schedule with the named ones: one HTML file without scripts.

#include <string>
#include <vector>

#include "schedule_options.hpp"
#include "weft/pipeline/certificate.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::plan {

/// A schedule, its prediction and its lower bound.
struct ScheduleResult {
  pipeline::Schedule schedule;
  pipeline::Problem problem;
  pipeline::Certificate certificate;
  pipeline::Prediction predicted;
  pipeline::Objective objective = pipeline::Objective::makespan;

  pipeline::Nanoseconds length() const { return predicted.length(objective); }
  /// How far above the bound it is, as a share of the bound.
  double gap() const {
    return static_cast<double>(length() - certificate.bound) / static_cast<double>(certificate.bound);
  }
};

/// The named schedules that fit the problem's memory, each with the number of chunks that suits it best (of
/// those that divide the problem's), the shortest first; with times. @param found is not among them
std::vector<ScheduleResult> rivals(const pipeline::Problem& problem, const ScheduleResult& found);

/// A table of all, and each drawn on one scale of time. All predictions have times.
std::string schedule_page(const ScheduleResult& found, const std::vector<ScheduleResult>& rivals,
                          const MeasuredIn& unit);

}  // namespace weft::plan
