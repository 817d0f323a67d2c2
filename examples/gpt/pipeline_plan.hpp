#pragma once
// How a GPT is cut into stages, and by which schedule they are worked off: pure functions of what units cost.
//
//   const std::vector<pipeline::StageCosts> units = estimated_costs(sizes, 1);
//   PipelinePlan plan = named_plan("zb-h1", {.devices = 4, .microbatches = 16, .units = units});
//   plan = found_plan({.devices = 4, .microbatches = 16, .units = measured});
//   plan.cut[2], plan.cut[3]                      // units of stage 2, the last excluded
//   const pipeline::Schedule whole = completed(plan.schedule, ...);

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpt_layers.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::examples {

struct PipelinePlan {
  pipeline::Schedule schedule;  ///< computation alone
  std::vector<int> cut;         ///< first unit of each stage; the number of units
  pipeline::Problem problem;    ///< by the costs it was drawn up for
  /// Of what was found: how long, and how much longer than the best with so many stages, at most.
  pipeline::Nanoseconds predicted = 0;
  double gap = 0;
};

/// What a plan is made for.
struct PipelineTask {
  int devices = 1;
  int microbatches = 1;
  std::vector<pipeline::StageCosts> units{};  ///< of one microbatch
  pipeline::Hop hop{};
  pipeline::Objective objective = pipeline::Objective::makespan;  ///< of what is found
  std::optional<int>
      chunks{};  ///< stages of a device; default: as few as the schedule can do with, or the best
};

/// By the multiplications of each unit, at a rate of no machine in particular; all activations are 1 byte.
std::vector<pipeline::StageCosts> estimated_costs(const GptSizes& sizes, int sequences);

/// Consecutive units, at least one each, so that the longest stage is as short as can be.
/// @throws Error (usage) for more stages than units
std::vector<int> balanced_cut(const std::vector<pipeline::StageCosts>& units, int stages);

/// @param name as make_named() takes it. @throws Error (usage) for a name there is not, and for what the
/// schedule or the model cannot do
PipelinePlan named_plan(std::string_view name, const PipelineTask& task);
/// The shortest that is found in the memory of 1F1B, over all numbers of chunks up to 4.
PipelinePlan found_plan(const PipelineTask& task);

struct CompletedOptions {
  bool recompute = false;           ///< all stages
  bool sharded_parameters = false;  ///< ZeRO-3
};
/// With all that executing it takes beside computation.
pipeline::Schedule completed(pipeline::Schedule schedule, const CompletedOptions& options);

/// What a stage has to hold at once, by its device's row.
struct StageDemand {
  int microbatches = 0;  ///< between forward (or recomputation) and last backward
  bool splits = false;   ///< any gradient of the input without that of the weights
};
StageDemand demand_of(const pipeline::Schedule& schedule, int stage);
/// Stages of a device whose parameters are whole at the same time; 0 where the schedule gathers none.
int whole_at_once(const pipeline::Schedule& schedule, int device);
/// The stages of a device in the order in which their gradients are complete.
std::vector<int> reduced_order(const pipeline::Schedule& schedule, int device);

}  // namespace weft::examples
