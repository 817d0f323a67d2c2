#include "rows.hpp"
#include "v_listed.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline {
namespace {

using detail::StageRow;

/// The handcrafted order for uniform costs and 2p microbatches or more, which leaves no bubble within a
/// device's span.
void write_row(StageRow first, StageRow second, int devices, int device, int microbatches) {
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
  for (int i = 0; i < device; ++i) {  // weights wait: what is behind needs the gradients first
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

Schedule handcrafted(const Problem& problem, const std::vector<int>& placement) {
  Schedule schedule = detail::empty_schedule("zb-v", problem, placement, 3);
  for (int device = 0; device < problem.devices; ++device) {
    auto& row = schedule.rows[static_cast<std::size_t>(device)];
    write_row({row, device}, {row, 2 * problem.devices - 1 - device}, problem.devices, device,
              problem.microbatches);
  }
  return schedule;
}

}  // namespace

Schedule zb_v(const Problem& problem) {
  const std::vector<int> placement =
      detail::accepted(problem, v_placement(problem.devices), detail::v_refusal);
  const detail::VRules rules[] = {
      {.rank = {1, 0, 2, 3}, .make_room = true},
      {.rank = {1, 0, 3, 2}, .make_room = true, .eager_weights = true, .beyond_share = 0},
      {.rank = {1, 0, 3, 2}, .make_room = true, .patient = true, .beyond_share = 0},
      {.rank = {0, 1, 3, 2}, .alternate = true, .make_room = true, .beyond_share = 0}};
  detail::Listed best = detail::v_listed(problem, placement, 2 * problem.devices, rules);
  if (problem.microbatches >= 2 * problem.devices) {
    Schedule fixed = handcrafted(problem, placement);
    const Prediction predicted = simulate(fixed, problem);
    if (predicted.fits(problem) &&
        std::pair(predicted.makespan, predicted.span) < std::pair(best.makespan, best.span))
      best.schedule = std::move(fixed);
  }
  best.schedule.name = "zb-v";
  return std::move(best.schedule);
}

}  // namespace weft::pipeline
