#pragma once
// A schedule beside the named ones, as a page: one HTML file without scripts.

#include <string>
#include <vector>

#include "schedule_options.hpp"
#include "told.hpp"

namespace weft::plan {

/// The named schedules that fit the problem's memory, each with the number of chunks that suits it best (of
/// those that divide the problem's), the shortest first; with times. @param found is not among them
std::vector<Told> rivals(const pipeline::Problem& problem, const Told& found);

/// A table of all, and each drawn on one scale of time. All predictions have times.
std::string schedule_page(const Told& found, const std::vector<Told>& rivals, const MeasuredIn& unit);

}  // namespace weft::plan
