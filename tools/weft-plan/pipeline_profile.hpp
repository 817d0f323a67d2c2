#pragma once
// What the stages of a pipeline take, as a file:
//
//   {"devices": 4,
//    "stages": [{"forward": 0.011, "backward_input": 0.012, "backward_weight": 0.009,
//                "activation": 52428800, "kept_for_weight": 41943040}, ...],
//    "hops": [{"latency": 0.00002, "occupancy": 0.0003}, ...],
//    "memory": [8589934592, ...]}
//
// Seconds and bytes, of one microbatch; a hop lies between a stage and the next. Hops may be left out
// (nothing on the way), memory too (no limit), and kept_for_weight (all of the activation).

#include <string>

#include "weft/pipeline/problem.hpp"

namespace weft::plan {

/// Without microbatches. @throws Error (usage, system) naming the file, the place in it and what is wrong
pipeline::Problem read_pipeline_profile(const std::string& path);

}  // namespace weft::plan
