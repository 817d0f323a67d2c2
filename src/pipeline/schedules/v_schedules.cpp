// ZB-V, V-Half and V-Min (Qi et al. 2024): two chunks on each device, placed as a V, with at most 2p, p + 2
// or 2 floor((p + 4) / 3) chunks held.
//
// The V balances memory: a device whose first chunk waits long for its gradient has a second that waits
// briefly, and the other way round. So each chunk may get its share of what a device may hold, by how long
// its activations live where every action takes one slot: 4p - 2d for the first chunk on device d, 2d + 2 for
// the second (section 3.1). Without shares the first chunk would take all there is.

#include <algorithm>
#include <limits>
#include <span>

#include "pipeline/schedules/cost_aware.hpp"
#include "pipeline/schedules/named.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline {
namespace detail {

std::optional<Refusal> v_refusal(const Problem& problem) {
  return unless_chunks("a schedule placed as a V", problem, 2, 2);
}

namespace {

/// Priorities of a V: `rank` has the rank of the first chunk's F, the second's F, the first's I and the second's I.
struct VRules {
  std::vector<int> rank;
  bool alternate = false, make_room = false, eager_weights = false, patient = false;
  int beyond_share = -1;  ///< how many more than its share the first chunk may have; -1: any number
};

/// The best schedule of these rules. @param held chunks that a device holds at most
TimedSchedule best_v_schedule(const Problem& problem, const std::vector<int>& placement, int held,
                              std::span<const VRules> rules) {
  const int devices = problem.devices;
  std::vector<PriorityRules> all;
  for (const VRules& one : rules) {
    PriorityRules& next =
        all.emplace_back(PriorityRules{.held = std::vector<int>(static_cast<std::size_t>(devices), held),
                                       .rank = one.rank,
                                       .alternate = one.alternate,
                                       .make_room = one.make_room,
                                       .eager_weights = one.eager_weights,
                                       .patient = one.patient});
    if (one.beyond_share < 0) continue;
    next.in_flight.assign(placement.size(), std::numeric_limits<int>::max());
    for (int device = 0; device < devices; ++device)
      next.in_flight[static_cast<std::size_t>(device)] =
          std::max(1, (4 * devices - 2 * device) * held / (4 * devices + 2) + one.beyond_share);
  }
  return best_cost_aware_schedule(problem, placement, all, Objective::makespan);
}

/// ZB-V's handcrafted order for uniform costs and 2p microbatches or more, which leaves no bubble within a
/// device's span.
void zb_v_row(StageRow first, StageRow second, int devices, int device, int microbatches) {
  const auto second_backward = [&] {
    second.input();
    second.weight();
  };
  for (int i = 0; i < 2 * (devices - device) - 1; ++i) first.forward();
  for (int i = 0; i < device; ++i) {
    second.forward();
    first.forward();
  }
  for (int i = 0; i < devices - device; ++i) {
    second.forward();
    second_backward();
  }
  while (second.forwards() < first.forwards() || first.forwards() < microbatches) {
    if (first.forwards() < microbatches) first.forward();
    first.input();
    first.weight();
    second.forward();
    second_backward();
  }
  for (int i = 0; i < device; ++i) {  // W waits: other devices need the input gradients first
    first.input();
    second.input();
  }
  for (int i = 0; i < devices - device; ++i) {
    first.input();
    first.weight();
  }
  while (second.weights() < microbatches) second.weight();
  while (first.weights() < microbatches) first.weight();
}

Schedule handcrafted_zb_v(const Problem& problem, const std::vector<int>& placement) {
  Schedule schedule = empty_schedule("zb-v", problem, placement, 3);
  for (int device = 0; device < problem.devices; ++device) {
    auto& row = schedule.rows[static_cast<std::size_t>(device)];
    zb_v_row({row, device}, {row, 2 * problem.devices - 1 - device}, problem.devices, device,
             problem.microbatches);
  }
  return schedule;
}

}  // namespace
}  // namespace detail

Schedule zb_v(const Problem& problem) {
  const std::vector<int> placement =
      detail::accepted(problem, v_placement(problem.devices), detail::v_refusal);
  const detail::VRules rules[] = {
      {.rank = {1, 0, 2, 3}, .make_room = true},
      {.rank = {1, 0, 3, 2}, .make_room = true, .eager_weights = true, .beyond_share = 0},
      {.rank = {1, 0, 3, 2}, .make_room = true, .patient = true, .beyond_share = 0},
      {.rank = {0, 1, 3, 2}, .alternate = true, .make_room = true, .beyond_share = 0}};
  detail::TimedSchedule best = detail::best_v_schedule(problem, placement, 2 * problem.devices, rules);
  if (problem.microbatches >= 2 * problem.devices) {
    Schedule fixed = detail::handcrafted_zb_v(problem, placement);
    const Prediction predicted = simulate(fixed, problem);
    if (predicted.fits(problem) &&
        std::pair(predicted.makespan, predicted.span) < std::pair(best.makespan, best.span))
      best.schedule = std::move(fixed);
  }
  best.schedule.name = "zb-v";
  return std::move(best.schedule);
}

Schedule v_half(const Problem& problem) {
  const std::vector<int> placement =
      detail::accepted(problem, v_placement(problem.devices), detail::v_refusal);
  const detail::VRules rules[] = {{.rank = {2, 1, 0, 3}, .beyond_share = 0},
                                  {.rank = {2, 0, 3, 1}, .make_room = true, .beyond_share = 0},
                                  {.rank = {1, 0, 2, 3}, .alternate = true, .beyond_share = 1},
                                  {.rank = {1, 0, 2, 3}, .make_room = true, .beyond_share = 1},
                                  {.rank = {1, 0, 2, 3}, .beyond_share = 0}};
  Schedule schedule = detail::best_v_schedule(problem, placement, problem.devices + 2, rules).schedule;
  schedule.name = "v-half";
  return schedule;
}

Schedule v_min(const Problem& problem) {
  const std::vector<int> placement =
      detail::accepted(problem, v_placement(problem.devices), detail::v_refusal);
  const detail::VRules rules[] = {{.rank = {1, 0, 3, 2}, .make_room = true, .beyond_share = 0},
                                  {.rank = {1, 0, 3, 2}, .make_room = true, .beyond_share = 1},
                                  {.rank = {1, 0, 2, 3}, .beyond_share = 0},
                                  {.rank = {2, 0, 3, 1}, .make_room = true, .beyond_share = 0}};
  Schedule schedule =
      detail::best_v_schedule(problem, placement, 2 * ((problem.devices + 4) / 3), rules).schedule;
  schedule.name = "v-min";
  return schedule;
}

}  // namespace weft::pipeline
