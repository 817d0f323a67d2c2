#pragma once

#include <string>

#include "weft/pipeline/problem.hpp"

namespace weft::plan {

/// Reads the costs of a pipeline from a file:
///
///   {"devices": 4,
///    "stages": [{"forward": 0.011, "backward_input": 0.012, "backward_weight": 0.009,
///                "activation": 52428800, "kept_for_weight": 41943040}, ...],
///    "hops": [{"latency": 0.00002, "occupancy": 0.0003}, ...],
///    "memory": [8589934592, ...]}
///
/// Seconds and bytes, of one microbatch; a hop lies between a stage and the next. Hops may be left out (no
/// time between stages), memory too (no limit), and kept_for_weight (the whole activation). The result has no
/// microbatches. @throws Error (usage, system) naming the file, the place in it and the problem
pipeline::Problem read_pipeline_profile(const std::string& path);

}  // namespace weft::plan
