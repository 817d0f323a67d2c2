#pragma once
// Pipelines as they occur, drawn at random: 2 to 64 devices, half to eight times as many microbatches, stages
// that differ by up to half, a heavy last stage, wires of two kinds, and memory from 0.4 to 3 times of what
// 1F1B needs.

#include <string>

#include "support/draw.hpp"
#include "weft/pipeline/problem.hpp"

namespace weft::test {

struct PipelineProblem {
  pipeline::Problem problem;
  pipeline::Objective objective = pipeline::Objective::makespan;
  double memory = 0;  ///< of 1F1B's, which is what `devices` microbatches take
};

struct DrawnFrom {
  int most_devices = 64;
  int chunks = 0;  ///< 0: 1, 2 or 4
  double least_memory = 0.4;
};

PipelineProblem draw_pipeline(Draw& draw, const DrawnFrom& from = {});

/// Stages that are alike, one a device, in the memory of 1F1B, with more than twice as many microbatches:
/// F, B and W of any proportion, and hops of 0 to three times W, as long as F + 2c >= W.
PipelineProblem draw_alike(Draw& draw);

/// "16 devices, 40 microbatches, 2 chunks, memory 1.25, makespan"
std::string described(const PipelineProblem& drawn);

}  // namespace weft::test
