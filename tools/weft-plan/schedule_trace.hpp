#pragma once
// A predicted schedule as a trace that ui.perfetto.dev and chrome://tracing load.

#include <string>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::plan {

/// Trace Event Format (JSON): a process for each device; threads for what it computes, for its messages out
/// and in, gathers, reductions and copies, as far as there are any. Spans of a thread follow each other: what
/// goes on at the same time has threads of its own, "wire out 2".
/// @param prediction with times @param microsecond in the trace: so many nanoseconds
std::string schedule_trace(const pipeline::Schedule& schedule, const pipeline::Problem& problem,
                           const pipeline::Prediction& prediction, double microsecond);

}  // namespace weft::plan
