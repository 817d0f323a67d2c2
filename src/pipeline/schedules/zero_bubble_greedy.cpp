#include <algorithm>

#include "best_listed.hpp"
#include "refusal.hpp"

namespace weft::pipeline {
namespace detail {

std::optional<Refusal> zero_bubble_greedy_refusal(const Problem& problem) {
  return unless_chunks("zb-greedy", problem, 1, 1);
}

namespace {

// The eight of all 32 that are best together on random problems (any costs, skews, delays and limits).
std::vector<ListRules> greedy_rules() {
  const auto rules = [](bool forward_first, bool alternate, bool eager_weights, bool patient) {
    return ListRules{.rank = forward_first ? std::vector{0, 1} : std::vector{1, 0},
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
}  // namespace detail

Schedule zero_bubble_greedy(const Problem& problem, Objective objective) {
  const std::vector<int> placement =
      detail::accepted(problem, looped_placement(problem.devices), detail::zero_bubble_greedy_refusal);
  Schedule schedule = detail::best_listed(problem, placement, detail::greedy_rules(), objective).schedule;
  schedule.name = "zb-greedy";
  return schedule;
}

Schedule zero_bubble_greedy(const Problem& problem) {
  return zero_bubble_greedy(problem, Objective::makespan);
}

}  // namespace weft::pipeline
