// Zero-bubble schedules of one chunk (Qi et al. 2023): ZB-H1, ZB-H2 and the greedy one. The backward is split
// into I and W, and W fills gaps. ZB-H1 and ZB-H2 give each device a number of microbatches in flight
// (forward to I) and held (forward to W), and the order follows from priorities; the greedy schedule is
// limited by memory alone.

#include <algorithm>

#include "pipeline/schedules/cost_aware.hpp"
#include "pipeline/schedules/named.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace detail {
namespace {

/// Microbatches of each device.
struct ZbLimits {
  std::vector<int> in_flight, held;
};

ZbLimits zb_h1_limits(int devices) {
  ZbLimits limits;
  for (int device = 0; device < devices; ++device) {
    limits.in_flight.push_back(devices - device);
    limits.held.push_back(devices);
  }
  return limits;
}

ZbLimits zb_h2_limits(int devices) {
  ZbLimits limits;
  for (int device = 0; device < devices; ++device) {
    limits.in_flight.push_back(2 * (devices - device) - 1);
    limits.held.push_back(2 * devices - 1);
  }
  return limits;
}

std::optional<Refusal> zb_h_refusal(const char* name, const Problem& problem, const ZbLimits& limits) {
  if (auto refused = unless_chunks(name, problem, 1, 1)) return refused;
  std::vector<Bytes> needs;
  for (std::size_t device = 0; device < problem.costs.stages.size(); ++device) {
    const StageCosts& stage = problem.costs.stages[device];
    const Bytes in_flight = std::min(limits.in_flight[device], problem.microbatches);
    const Bytes held = std::min(limits.held[device], problem.microbatches);
    needs.push_back(in_flight * stage.activation + (held - in_flight) * stage.kept_for_weight);
  }
  return unless_fits(name, problem, needs);
}

Schedule zb_h(const char* name, const Problem& problem, const std::vector<int>& placement,
              const ZbLimits& limits) {
  PriorityRules turns{.in_flight = limits.in_flight,
                      .held = limits.held,
                      .rank = {0, 1},
                      .alternate = true,
                      .make_room = true};
  PriorityRules patient = turns;
  patient.patient = patient.eager_weights = true;
  PriorityRules eager = turns;
  eager.eager_weights = true;
  PriorityRules backwards = turns;
  backwards.rank = {1, 0};
  backwards.patient = true;
  const PriorityRules rules[] = {turns, patient, eager, backwards};
  Schedule schedule = best_cost_aware_schedule(problem, placement, rules, Objective::makespan).schedule;
  schedule.name = name;
  return schedule;
}

/// The eight of all 32 sets that are best together on random problems (any costs, skews, delays and limits).
std::vector<PriorityRules> greedy_rules() {
  const auto rules = [](bool forward_first, bool alternate, bool eager_weights, bool patient) {
    return PriorityRules{.rank = forward_first ? std::vector{0, 1} : std::vector{1, 0},
                         .alternate = alternate,
                         .make_room = alternate,
                         .eager_weights = eager_weights,
                         .patient = patient};
  };
  return {rules(true, true, true, true),   rules(true, true, true, false),   rules(false, true, false, true),
          rules(true, true, false, false), rules(false, false, true, false), rules(false, false, false, true),
          rules(false, false, true, true), rules(true, true, false, true)};
}

}  // namespace

std::optional<Refusal> zb_h1_refusal(const Problem& problem) {
  return zb_h_refusal("zb-h1", problem, zb_h1_limits(problem.devices));
}

std::optional<Refusal> zb_h2_refusal(const Problem& problem) {
  return zb_h_refusal("zb-h2", problem, zb_h2_limits(problem.devices));
}

std::optional<Refusal> zero_bubble_greedy_refusal(const Problem& problem) {
  return unless_chunks("zb-greedy", problem, 1, 1);
}

}  // namespace detail

Schedule zb_h1(const Problem& problem) {
  const std::vector<int> placement =
      detail::accepted(problem, looped_placement(problem.devices), detail::zb_h1_refusal);
  return detail::zb_h("zb-h1", problem, placement, detail::zb_h1_limits(problem.devices));
}

Schedule zb_h2(const Problem& problem) {
  const std::vector<int> placement =
      detail::accepted(problem, looped_placement(problem.devices), detail::zb_h2_refusal);
  return detail::zb_h("zb-h2", problem, placement, detail::zb_h2_limits(problem.devices));
}

Schedule zero_bubble_greedy(const Problem& problem, Objective objective) {
  const std::vector<int> placement =
      detail::accepted(problem, looped_placement(problem.devices), detail::zero_bubble_greedy_refusal);
  Schedule schedule =
      detail::best_cost_aware_schedule(problem, placement, detail::greedy_rules(), objective).schedule;
  schedule.name = "zb-greedy";
  return schedule;
}

Schedule zero_bubble_greedy(const Problem& problem) {
  return zero_bubble_greedy(problem, Objective::makespan);
}

}  // namespace weft::pipeline
