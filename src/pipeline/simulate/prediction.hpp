#pragma once
// What code that draws or replays a prediction checks first.

#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline::detail {

/// @throws Error (usage) if the prediction lacks times, or its rows are of another length than the schedule's
void expect_times(const Schedule& schedule, const Prediction& prediction);

}  // namespace weft::pipeline::detail
