#include "best_listed.hpp"

#include <algorithm>

namespace weft::pipeline::detail {
namespace {

constexpr std::int64_t actions_tried = std::int64_t{1} << 16;  // 50 ns each: a few milliseconds

bool better(const Listed& a, const Listed& b, Objective objective) {
  return objective == Objective::makespan ? std::pair(a.makespan, a.span) < std::pair(b.makespan, b.span)
                                          : std::pair(a.span, a.makespan) < std::pair(b.span, b.makespan);
}

}  // namespace

Listed best_listed(const Problem& problem, const std::vector<int>& device_of,
                   std::span<const ListRules> rules, Objective objective) {
  const std::int64_t actions = std::int64_t{3} * problem.stages() * problem.microbatches;
  const auto tried =
      std::clamp<std::size_t>(static_cast<std::size_t>(actions_tried / actions), 1, rules.size());
  Listed best = list_schedule(problem, device_of, rules[0]);
  for (const ListRules& one : rules.subspan(1, tried - 1)) {
    // A span may be the better of two although its makespan is not.
    const Nanoseconds give_up_at =
        objective == Objective::makespan ? best.makespan + 1 : std::numeric_limits<Nanoseconds>::max();
    Listed listed = list_schedule(problem, device_of, one, give_up_at);
    if (better(listed, best, objective)) best = std::move(listed);
  }
  return best;
}

}  // namespace weft::pipeline::detail
