#include "v_listed.hpp"

#include <algorithm>
#include <limits>

namespace weft::pipeline::detail {

std::optional<Refusal> v_refusal(const Problem& problem) {
  return unless_chunks("a schedule placed as a V", problem, 2, 2);
}

Listed v_listed(const Problem& problem, const std::vector<int>& placement, int held,
                std::span<const VRules> rules) {
  const int devices = problem.devices;
  std::vector<ListRules> all;
  for (const VRules& one : rules) {
    ListRules& next =
        all.emplace_back(ListRules{.held = std::vector<int>(static_cast<std::size_t>(devices), held),
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
  return best_listed(problem, placement, all, Objective::makespan);
}

}  // namespace weft::pipeline::detail
