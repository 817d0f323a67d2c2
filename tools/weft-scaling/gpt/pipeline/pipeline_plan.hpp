#pragma once
// How a GPT is cut into stages, and which schedule executes them: pure functions of the costs of units.
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

#include "weft-scaling/gpt/model/gpt_layers.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::examples {

struct PipelinePlan {
  pipeline::Schedule schedule;  ///< computation alone
  std::vector<int> cut;         ///< first unit of each stage; the number of units
  pipeline::Problem problem;    ///< by the costs it was drawn up for
  /// For a found schedule: its length, and the most by which it exceeds the shortest one with so many stages.
  pipeline::Nanoseconds predicted = 0;
  double gap = 0;
};

/// The problem that a plan solves.
struct PipelineTask {
  int devices = 1;
  int microbatches = 1;
  std::vector<pipeline::StageCosts> units{};  ///< of one microbatch
  pipeline::Hop hop{};
  pipeline::Objective objective = pipeline::Objective::makespan;  ///< for the search of "auto"
  std::optional<int>
      chunks{};  ///< stages of a device; default: as few as the schedule can do with, or the best
};

/// Estimated from the multiplications of each unit, at an assumed rate; each activation counts as 1 byte.
std::vector<pipeline::StageCosts> estimated_costs(const GptSizes& sizes, int sequences);

/// Consecutive units, at least one each, so that the longest stage is as short as possible.
/// @throws Error (usage) for more stages than units
std::vector<int> balanced_cut(const std::vector<pipeline::StageCosts>& units, int stages);

/// @param name as for make_named(). @throws Error (usage) for an unknown name, or if the schedule or the
/// model does not allow the task
PipelinePlan named_plan(std::string_view name, const PipelineTask& task);
/// The shortest schedule found in the memory of 1F1B, over all numbers of chunks up to 4.
PipelinePlan found_plan(const PipelineTask& task);

struct CompletedOptions {
  bool recompute = false;           ///< all stages
  bool sharded_parameters = false;  ///< ZeRO-3
};
/// The schedule with all other actions that execution needs (transfers, gathers, reductions).
pipeline::Schedule completed(pipeline::Schedule schedule, const CompletedOptions& options);

/// How much a stage holds at once, by the row of its device.
struct StageDemand {
  int microbatches = 0;  ///< between forward (or recomputation) and last backward
  bool splits = false;   ///< any gradient of the input without that of the weights
};
StageDemand demand_of(const pipeline::Schedule& schedule, int stage);
/// Stages of a device whose parameters are whole at the same time; 0 where the schedule gathers none.
int whole_at_once(const pipeline::Schedule& schedule, int device);
/// The stages of a device, in the order in which their gradients become complete.
std::vector<int> reduced_order(const pipeline::Schedule& schedule, int device);

}  // namespace weft::examples
