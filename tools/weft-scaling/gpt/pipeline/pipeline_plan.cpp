#include "weft-scaling/gpt/pipeline/pipeline_plan.hpp"

#include <algorithm>
#include <numeric>

#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/simulate.hpp"
#include "weft/pipeline/synthesize.hpp"

namespace weft::examples {

using pipeline::Action;
using pipeline::ActionType;
using pipeline::Nanoseconds;
using pipeline::Problem;
using pipeline::Schedule;
using pipeline::StageCosts;

namespace {

constexpr int most_chunks = 4;

const std::vector<Action>& row_of(const Schedule& schedule, int device) {
  return schedule.rows[static_cast<std::size_t>(device)];
}

Problem problem_of(const PipelineTask& task, const std::vector<int>& cut) {
  Problem problem{.devices = task.devices, .microbatches = task.microbatches, .costs = {}};
  for (std::size_t stage = 0; stage + 1 < cut.size(); ++stage) {
    StageCosts sum;
    for (int unit = cut[stage]; unit < cut[stage + 1]; ++unit) {
      const StageCosts& one = task.units[static_cast<std::size_t>(unit)];
      sum.forward += one.forward;
      sum.backward_input += one.backward_input;
      sum.backward_weight += one.backward_weight;
      sum.activation += one.activation;
      sum.kept_for_weight += one.kept_for_weight;
    }
    problem.costs.stages.push_back(sum);
  }
  problem.costs.hops.assign(problem.costs.stages.size() - 1, task.hop);
  return problem;
}

int chunks_possible(const PipelineTask& task) {
  return static_cast<int>(task.units.size()) / std::max(task.devices, 1);
}

/// The smallest number of chunks that the schedule supports; 1 for an unknown name.
int chunks_of(std::string_view name, int devices) {
  const auto known = std::ranges::find(pipeline::named_schedules(), name, &pipeline::NamedSchedule::name);
  for (int chunks = 1; known != pipeline::named_schedules().end() && chunks <= most_chunks; ++chunks) {
    const StageCosts any{
        .forward = most_chunks, .backward_input = most_chunks, .backward_weight = most_chunks};
    if (known->suits(
            {.devices = devices, .microbatches = 1024, .costs = uniform_costs(devices, chunks, any)}))
      return chunks;
  }
  return 1;
}

/// Each device may hold as many microbatches as 1F1B would hold on the first; at least one.
void limit_memory(Problem& problem) {
  problem.memory_limit.assign(static_cast<std::size_t>(problem.devices), 0);
  pipeline::Bytes whole = 0;
  for (const StageCosts& stage : problem.costs.stages) whole += stage.activation;
  pipeline::Bytes largest = 0;  // of a device's chunks, wherever they are placed
  for (const StageCosts& stage : problem.costs.stages) largest = std::max(largest, stage.activation);
  largest *= problem.chunks();
  for (pipeline::Bytes& limit : problem.memory_limit)
    limit = std::max(whole / problem.devices, largest) * std::min(problem.devices, problem.microbatches);
}

}  // namespace

std::vector<StageCosts> estimated_costs(const GptSizes& sizes, int sequences) {
  const auto cost = [&](std::int64_t forward, std::int64_t input, std::int64_t weight) {
    constexpr std::int64_t per_nanosecond = 25;  // multiplications
    const std::int64_t rows = std::int64_t{sequences} * sizes.context;
    return StageCosts{.forward = 1 + rows * forward / per_nanosecond,
                      .backward_input = 1 + rows * input / per_nanosecond,
                      .backward_weight = 1 + rows * weight / per_nanosecond,
                      .activation = 1,
                      .kept_for_weight = 1};
  };
  const std::int64_t width = sizes.width;
  const std::int64_t square = width * width;
  const std::int64_t scores = 2 * std::int64_t{sizes.context} * width;
  const std::int64_t head = std::int64_t{GptSizes::vocabulary} * width;
  std::vector<StageCosts> units{cost(width, 0, width)};
  for (int i = 0; i < sizes.layers; ++i) {
    units.push_back(cost(4 * square + scores, 4 * square + 2 * scores, 4 * square));
    units.push_back(cost(8 * square, 8 * square, 8 * square));
  }
  units.push_back(cost(head, head, head));
  return units;
}

std::vector<int> balanced_cut(const std::vector<StageCosts>& units, int stages) {
  const int count = static_cast<int>(units.size());
  if (stages < 1 || stages > count) {
    throw Error(ErrorKind::usage,
                text(stages, " stages of a model of ", count, " units (embedding, branches, head)"),
                "use fewer devices or chunks");
  }
  std::vector<Nanoseconds> before{0};  // of all units before one
  for (const StageCosts& unit : units) before.push_back(before.back() + unit.total());
  // longest[s][u]: of the first u units in s stages; at[s][u]: where the last of these begins
  const auto size = static_cast<std::size_t>(count) + 1;
  const auto height = static_cast<std::size_t>(stages) + 1;
  constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();
  std::vector longest(height, std::vector<Nanoseconds>(size, never));
  std::vector at(height, std::vector<int>(size, 0));
  longest[0][0] = 0;
  for (std::size_t s = 1; s < height; ++s) {
    for (std::size_t u = s; u < size; ++u) {
      for (std::size_t from = s - 1; from < u; ++from) {
        const Nanoseconds length = std::max(longest[s - 1][from], before[u] - before[from]);
        if (length >= longest[s][u]) continue;
        longest[s][u] = length;
        at[s][u] = static_cast<int>(from);
      }
    }
  }
  std::vector<int> cut(height, count);
  for (std::size_t s = height - 1; s > 0; --s) cut[s - 1] = at[s][static_cast<std::size_t>(cut[s])];
  return cut;
}

PipelinePlan named_plan(std::string_view name, const PipelineTask& task) {
  const int chunks = task.chunks.value_or(chunks_of(name, task.devices));
  std::vector<int> cut = balanced_cut(task.units, task.devices * chunks);
  Problem problem = problem_of(task, cut);
  return {pipeline::make_named(name, problem), std::move(cut), std::move(problem)};
}

PipelinePlan found_plan(const PipelineTask& task) {
  std::optional<PipelinePlan> best;
  const int least = task.chunks.value_or(1);
  const int most = task.chunks.value_or(std::clamp(chunks_possible(task), 1, most_chunks));
  for (int chunks = least; chunks <= most; ++chunks) {
    std::vector<int> cut = balanced_cut(task.units, task.devices * chunks);
    Problem problem = problem_of(task, cut);
    limit_memory(problem);
    pipeline::Synthesis found =
        pipeline::synthesize(problem, {.objective = task.objective, .fewer_chunks = false});
    if (best && found.length >= best->predicted) continue;
    const double gap = found.gap();
    best = {std::move(found.schedule), std::move(cut), std::move(problem), found.length, gap};
  }
  return *best;
}

Schedule completed(Schedule schedule, const CompletedOptions& options) {
  if (options.recompute) {
    std::vector<int> all(static_cast<std::size_t>(schedule.stages()));
    std::iota(all.begin(), all.end(), 0);
    schedule = pipeline::with_recompute(schedule, all);
  }
  if (options.sharded_parameters) schedule = pipeline::with_unshards(schedule);
  return pipeline::with_communication(pipeline::with_reductions(schedule));
}

StageDemand demand_of(const Schedule& schedule, int stage) {
  StageDemand demand;
  std::vector<bool> recomputed(static_cast<std::size_t>(schedule.microbatches), false);
  const std::vector<Action>& row = row_of(schedule, schedule.device_of[static_cast<std::size_t>(stage)]);
  for (const Action& action : row) {
    if (action.stage == stage && action.type == ActionType::recompute)
      recomputed[static_cast<std::size_t>(action.microbatch)] = true;
  }
  int held = 0;
  for (const Action& action : row) {
    if (action.stage != stage) continue;
    const bool takes =
        action.type == ActionType::recompute ||
        (action.type == ActionType::forward && !recomputed[static_cast<std::size_t>(action.microbatch)]);
    held += takes ? 1 : 0;
    held -= action.type == ActionType::backward || action.type == ActionType::backward_weight ? 1 : 0;
    demand.microbatches = std::max(demand.microbatches, held);
    demand.splits = demand.splits || action.type == ActionType::backward_input;
  }
  return demand;
}

int whole_at_once(const Schedule& schedule, int device) {
  int held = 0;
  int most = 0;
  for (const Action& action : row_of(schedule, device)) {
    held += action.type == ActionType::unshard && action.awaits ? 1 : 0;
    held -= action.type == ActionType::reshard ? 1 : 0;
    most = std::max(most, held);
  }
  return most;
}

std::vector<int> reduced_order(const Schedule& schedule, int device) {
  std::vector<int> order;
  for (const Action& action : row_of(schedule, device)) {
    if (action.type == ActionType::reduce_gradients && !action.awaits) order.push_back(action.stage);
  }
  return order;
}

}  // namespace weft::examples
