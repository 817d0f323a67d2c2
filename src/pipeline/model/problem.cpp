#include "weft/pipeline/problem.hpp"

#include <algorithm>
#include <string>

#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& advice) {
  throw Error(ErrorKind::usage, what, advice);
}

/// The k-th of n parts of a whole that add up to it.
std::int64_t part(std::int64_t whole, int k, int n) {
  return whole * (k + 1) / n - whole * k / n;
}

StageCosts part_of(const StageCosts& whole, int k, int n) {
  return {.forward = part(whole.forward, k, n),
          .backward_input = part(whole.backward_input, k, n),
          .backward_weight = part(whole.backward_weight, k, n),
          .activation = part(whole.activation, k, n),
          .kept_for_weight = part(whole.kept_for_weight, k, n),
          .unshard = part(whole.unshard, k, n),
          .reduce = part(whole.reduce, k, n),
          .copy = part(whole.copy, k, n)};
}

void expect_stage(int stage, const StageCosts& costs) {
  const auto at_least = [&](const char* what, std::int64_t value, std::int64_t least) {
    if (value < least)
      refuse(text("stage ", stage, ": ", what, " is ", value), text("give ", least, " or more"));
  };
  at_least("forward (ns)", costs.forward, 1);
  at_least("backward_input (ns)", costs.backward_input, 1);
  at_least("backward_weight (ns)", costs.backward_weight, 1);
  at_least("activation (bytes)", costs.activation, 0);
  at_least("kept_for_weight (bytes)", costs.kept_for_weight, 0);
  at_least("unshard (ns)", costs.unshard, 0);
  at_least("reduce (ns)", costs.reduce, 0);
  at_least("copy (ns)", costs.copy, 0);
  if (costs.kept_for_weight > costs.activation)
    refuse(text("stage ", stage, ": kept_for_weight is ", costs.kept_for_weight, " of an activation of ",
                costs.activation, " bytes"),
           "it is the part of the activation that the weight gradient needs");
}

void expect_limits(const Problem& problem, const std::vector<int>& device_of) {
  if (problem.memory_limit.empty()) return;
  if (static_cast<int>(problem.memory_limit.size()) != problem.devices)
    refuse(text(problem.memory_limit.size(), " memory limits for ", problem.devices, " devices"),
           "give one for each device, or none");
  std::vector<Bytes> least(static_cast<std::size_t>(problem.devices));
  for (std::size_t stage = 0; stage < device_of.size(); ++stage)
    least[static_cast<std::size_t>(device_of[stage])] += problem.costs.stages[stage].activation;
  for (std::size_t device = 0; device < least.size(); ++device) {
    if (problem.memory_limit[device] < least[device])
      refuse(text("device ", device, ": a memory limit of ", problem.memory_limit[device],
                  " bytes is below one microbatch, whose activations there are ", least[device], " bytes"),
             "allow more, or recompute, or use more devices");
  }
}

}  // namespace

const char* name(Objective objective) {
  return objective == Objective::makespan ? "makespan" : "span";
}

Costs uniform_costs(int devices, int chunks, const StageCosts& whole_device, const Hop& hop) {
  if (devices < 1 || chunks < 1)
    refuse(text(devices, " devices with ", chunks, " chunks each"), "give 1 or more of both");
  Costs result;
  for (int stage = 0; stage < devices * chunks; ++stage)
    result.stages.push_back(part_of(whole_device, stage / devices, chunks));
  result.hops.assign(result.stages.size() - 1, hop);
  return result;
}

Costs joined(const Costs& costs, int stages) {
  const int had = static_cast<int>(costs.stages.size());
  if (stages < 1 || had % stages != 0)
    refuse(text(had, " stages cannot be joined to ", stages), "give a number that divides theirs");
  Costs result;
  const int each = had / stages;
  for (int stage = 0; stage < had; ++stage) {
    const StageCosts& one = costs.stages[static_cast<std::size_t>(stage)];
    if (stage % each == 0) {
      if (stage > 0) result.hops.push_back(costs.hops[static_cast<std::size_t>(stage - 1)]);
      result.stages.push_back(one);
      continue;
    }
    StageCosts& sum = result.stages.back();
    sum.forward += one.forward;
    sum.backward_input += one.backward_input;
    sum.backward_weight += one.backward_weight;
    sum.activation += one.activation;
    sum.kept_for_weight += one.kept_for_weight;
    sum.unshard += one.unshard;
    sum.reduce += one.reduce;
    sum.copy += one.copy;
  }
  return result;
}

void expect_valid(const Problem& problem, const std::vector<int>& device_of) {
  if (problem.devices < 1) refuse(text(problem.devices, " devices"), "give 1 or more");
  if (problem.microbatches < 1) refuse(text(problem.microbatches, " microbatches"), "give 1 or more");
  const int stages = problem.stages();
  if (stages < 1 || stages % problem.devices != 0)
    refuse(text("costs of ", stages, " stages for ", problem.devices, " devices"),
           "give each device equally many stages");
  if (static_cast<int>(problem.costs.hops.size()) != stages - 1)
    refuse(text(problem.costs.hops.size(), " hops between ", stages, " stages"), "give one less than stages");
  for (int stage = 0; stage < stages; ++stage)
    expect_stage(stage, problem.costs.stages[static_cast<std::size_t>(stage)]);
  for (std::size_t hop = 0; hop < problem.costs.hops.size(); ++hop) {
    if (problem.costs.hops[hop].latency < 0 || problem.costs.hops[hop].occupancy < 0)
      refuse(text("the hop from stage ", hop, " to ", hop + 1, " takes ", problem.costs.hops[hop].latency,
                  " ns and occupies its wire for ", problem.costs.hops[hop].occupancy),
             "give 0 or more");
  }
  if (static_cast<int>(device_of.size()) != stages)
    refuse(text("a placement of ", device_of.size(), " stages, and costs of ", stages),
           "give both for the same stages");
  std::vector<int> count(static_cast<std::size_t>(problem.devices));
  for (std::size_t stage = 0; stage < device_of.size(); ++stage) {
    if (device_of[stage] < 0 || device_of[stage] >= problem.devices)
      refuse(text("stage ", stage, " is placed on device ", device_of[stage]),
             text("devices are 0 to ", problem.devices - 1));
    ++count[static_cast<std::size_t>(device_of[stage])];
  }
  for (std::size_t device = 0; device < count.size(); ++device) {
    if (count[device] != problem.chunks())
      refuse(text("device ", device, " has ", count[device], " stages"),
             text("every device has ", problem.chunks(), " here"));
  }
  expect_limits(problem, device_of);
}

}  // namespace weft::pipeline
