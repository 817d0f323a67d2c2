#pragma once
// What stages and the way between them cost here: measured, as a Problem takes it.
//
//   std::vector<pipeline::Stage*> finest(units);             // each rank has some; null: another rank has it
//   Problem problem{.devices = p, .microbatches = m, .costs = measured_costs(comm, finest, compute)};
//   for (StageCosts& stage : problem.costs.stages) stage.activation = ...   // what only the trainer knows
//   Synthesis found = synthesize(problem);
//
// All ranks measure at the same time, as they will compute at the same time: what they take from each other
// is in the figures. Where several have the same stage, the slowest counts, and everybody gets the same
// figures.
//
// WRONG: stages whose backward depends on what is in their input: it is zero.

#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/stage.hpp"

namespace weft::pipeline {

struct MeasureOptions {
  int repetitions = 5;  ///< whose median counts; one more goes before, which does not
};

/// Forward, input gradient and weight gradient of one microbatch; activation and all others stay 0. What a
/// stage has of microbatch 0 must be free.
StageCosts measured_stage(Stage& stage, const Stream& compute, const MeasureOptions& options = {});

/// From a rank to the next, the slowest pair: a message of 8 bytes is latency, what one of `boundary` takes
/// longer is occupancy. Nothing where there is one rank. Collective; blocks.
Hop measured_hop(Communicator comm, const Boundary& boundary, const MeasureOptions& options = {});

/// Of a model in stages. Collective; blocks. @param stages all of them in order; null where another rank
/// measures it. @throws Error (usage), on every rank, for a stage that nobody has
Costs measured_costs(Communicator comm, const std::vector<Stage*>& stages, const Stream& compute,
                     const MeasureOptions& options = {});

}  // namespace weft::pipeline
