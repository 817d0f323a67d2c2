#pragma once
// Measures what stages and hops cost on this machine, for a Problem.
//
//   std::vector<pipeline::Stage*> finest(units);             // each rank has some; null: it is on another
//   rank Problem problem{.devices = p, .microbatches = m, .costs = measured_costs(comm, finest, compute)};
//   for (StageCosts& stage : problem.costs.stages) stage.activation = ...   // what only the trainer knows
//   Synthesis found = synthesize(problem);
//
// All ranks measure at the same time, since they will compute at the same time: the figures include what they
// take from each other. If several ranks have the same stage, the slowest counts. All ranks get the same
// figures.
//
// WRONG: stages whose time depends on the values of their input: all inputs are zero here.

#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/stage.hpp"

namespace weft::pipeline {

struct MeasureOptions {
  int repetitions = 5;  ///< the median of these counts, after one run that does not
};

/// Times forward, input gradient and weight gradient of one microbatch; all other costs stay 0. The stage
/// must not hold anything of microbatch 0.
StageCosts measured_stage(Stage& stage, const Stream& compute, const MeasureOptions& options = {});

/// Times messages from each rank to the next; the slowest pair counts. A message of 8 bytes gives the
/// latency, and what one of `boundary` takes longer is the occupancy. All 0 on one rank. Collective; blocks.
Hop measured_hop(Communicator comm, const Boundary& boundary, const MeasureOptions& options = {});

/// Measures all stages and hops of a model. Collective; blocks. @param stages all of them in order; null if
/// another rank measures it. @throws Error (usage), on every rank, for a stage that no rank has
Costs measured_costs(Communicator comm, const std::vector<Stage*>& stages, const Stream& compute,
                     const MeasureOptions& options = {});

}  // namespace weft::pipeline
