#include "zb_h.hpp"

#include <algorithm>

#include "best_listed.hpp"

namespace weft::pipeline::detail {

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

Schedule zb_h(const char* name, const Problem& problem, std::vector<int> placement, const ZbLimits& limits) {
  ListRules turns{.in_flight = limits.in_flight,
                  .held = limits.held,
                  .rank = {0, 1},
                  .alternate = true,
                  .make_room = true};
  ListRules patient = turns;
  patient.patient = patient.eager_weights = true;
  ListRules eager = turns;
  eager.eager_weights = true;
  ListRules backwards = turns;
  backwards.rank = {1, 0};
  backwards.patient = true;
  const ListRules rules[] = {turns, patient, eager, backwards};
  Schedule schedule = best_listed(problem, placement, rules, Objective::makespan).schedule;
  schedule.name = name;
  return schedule;
}

}  // namespace weft::pipeline::detail
