#pragma once
// What draws a prediction needs the times in it.

#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline::detail {

/// @throws Error (usage) where the prediction lacks times, or has those of rows of another length
void expect_times(const Schedule& schedule, const Prediction& prediction);

}  // namespace weft::pipeline::detail
