#include "unit/pipeline/search/all_schedules.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "weft/pipeline/schedule.hpp"

namespace weft::test {
namespace {

using namespace pipeline;

/// Every state that can be reached by adding one action at a time to some device, each as early as it can be:
/// all orders of all devices, without a thought for which are good. States that hold the same actions and are
/// no earlier in any time are left out.
struct State {
  std::vector<Nanoseconds> free, begin;
  std::vector<Nanoseconds> forward, gradient;  // when each is there, by stage and microbatch; -1: not yet
};

class All {
 public:
  All(const SmallProblem& small, Objective objective)
      : problem_(small.problem),
        device_of_(small.device_of),
        objective_(objective),
        m_(static_cast<std::size_t>(problem_.microbatches)),
        cells_(device_of_.size() * m_) {}

  Nanoseconds shortest() {
    std::map<std::vector<char>, std::vector<State>> layer;
    State start{std::vector<Nanoseconds>(devices()), std::vector<Nanoseconds>(devices(), -1),
                std::vector<Nanoseconds>(cells_, -1), std::vector<Nanoseconds>(cells_, -1)};
    std::fill_n(start.forward.begin(), m_, 0);
    layer[std::vector<char>(cells_ * 3)].push_back(start);
    for (std::size_t step = 0; step < cells_ * 3; ++step) {
      next_.clear();
      for (const auto& [done, states] : layer) {
        for (const State& state : states) extend(done, state);
      }
      layer.swap(next_);
    }
    Nanoseconds best = std::numeric_limits<Nanoseconds>::max();
    for (const auto& [done, states] : layer) {
      for (const State& state : states) best = std::min(best, length(state));
    }
    return best;
  }

 private:
  std::size_t devices() const { return static_cast<std::size_t>(problem_.devices); }
  std::size_t device(std::size_t stage) const { return static_cast<std::size_t>(device_of_[stage]); }
  Nanoseconds wire(std::size_t from) const {
    return device_of_[from] == device_of_[from + 1] ? 0 : problem_.costs.hops[from].delay();
  }

  Nanoseconds length(const State& state) const {
    Nanoseconds longest = 0;
    for (std::size_t d = 0; d < devices(); ++d)
      longest = std::max(longest, state.free[d] - (objective_ == Objective::span ? state.begin[d] : 0));
    return longest;
  }

  Bytes held(const std::vector<char>& done, std::size_t d) const {
    Bytes result = 0;
    for (std::size_t stage = 0; stage < device_of_.size(); ++stage) {
      if (device(stage) != d) continue;
      const StageCosts& costs = problem_.costs.stages[stage];
      for (std::size_t j = 0; j < m_; ++j) {
        const std::size_t cell = (stage * m_ + j) * 3;
        result += done[cell] * costs.activation -
                  done[cell + 1] * (costs.activation - costs.kept_for_weight) -
                  done[cell + 2] * costs.kept_for_weight;
      }
    }
    return result;
  }

  void extend(const std::vector<char>& done, const State& state) {
    for (std::size_t stage = 0; stage < device_of_.size(); ++stage) {
      const StageCosts& costs = problem_.costs.stages[stage];
      for (std::size_t j = 0; j < m_; ++j) {
        const std::size_t at = stage * m_ + j, cell = at * 3;
        if (!done[cell]) {
          if (state.forward[at] < 0 ||
              (!problem_.memory_limit.empty() &&
               held(done, device(stage)) + costs.activation > problem_.memory_limit[device(stage)]))
            continue;
          State next = state;
          const Nanoseconds end = run(next, stage, state.forward[at], costs.forward);
          stage + 1 < device_of_.size() ? next.forward[at + m_] = end + wire(stage) : next.gradient[at] = end;
          keep(done, cell, next);
        } else if (!done[cell + 1]) {
          if (state.gradient[at] < 0) continue;
          State next = state;
          const Nanoseconds end = run(next, stage, state.gradient[at], costs.backward_input);
          if (stage > 0) next.gradient[at - m_] = end + wire(stage - 1);
          keep(done, cell + 1, next);
        } else if (!done[cell + 2]) {
          State next = state;
          run(next, stage, 0, costs.backward_weight);
          keep(done, cell + 2, next);
        }
      }
    }
  }

  Nanoseconds run(State& state, std::size_t stage, Nanoseconds ready, Nanoseconds took) const {
    const std::size_t d = device(stage);
    const Nanoseconds begin = std::max(state.free[d], ready);
    if (state.begin[d] < 0) state.begin[d] = begin;
    return state.free[d] = begin + took;
  }

  void keep(std::vector<char> done, std::size_t cell, const State& state) {
    done[cell] = 1;
    auto& states = next_[done];
    const auto no_later = [&](const State& a, const State& b) {
      const auto all = [](const auto& x, const auto& y, auto better) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (!better(x[i], y[i])) return false;
        }
        return true;
      };
      const auto below = [](Nanoseconds x, Nanoseconds y) { return x <= y; };
      // A device that has begun later has a shorter span.
      return all(a.free, b.free, below) && all(a.forward, b.forward, below) &&
             all(a.gradient, b.gradient, below) &&
             (objective_ == Objective::makespan ||
              all(a.begin, b.begin, [](Nanoseconds x, Nanoseconds y) { return x >= y; }));
    };
    for (const State& other : states) {
      if (no_later(other, state)) return;
    }
    std::erase_if(states, [&](const State& other) { return no_later(state, other); });
    states.push_back(state);
  }

  const Problem& problem_;
  const std::vector<int>& device_of_;
  Objective objective_;
  std::size_t m_, cells_;
  std::map<std::vector<char>, std::vector<State>> next_;
};

}  // namespace

SmallProblem draw_problem(Draw& draw) {
  const bool two_chunks = draw.below(4) == 0;
  const int devices = two_chunks ? 2 : 2 + draw.below(2), stages = two_chunks ? 4 : devices;
  SmallProblem result{
      .problem = {.devices = devices, .microbatches = 1 + draw.below(stages > 2 ? 2 : 3), .costs = {}},
      .device_of =
          two_chunks && draw.below(2) == 0 ? v_placement(2) : looped_placement(devices, stages / devices)};
  for (int s = 0; s < stages; ++s) {
    const Bytes activation = 1 + draw.below(4);
    result.problem.costs.stages.push_back({.forward = 1 + draw.below(9),
                                           .backward_input = 1 + draw.below(9),
                                           .backward_weight = 1 + draw.below(9),
                                           .activation = activation,
                                           .kept_for_weight = draw.below(static_cast<int>(activation) + 1)});
    if (s > 0) result.problem.costs.hops.push_back({.latency = draw.below(5), .occupancy = 0});
  }
  if (draw.below(4) == 0) return result;
  for (int d = 0; d < devices; ++d) {
    Bytes least = 0;
    for (int s = 0; s < stages; ++s)
      least += result.device_of[static_cast<std::size_t>(s)] == d
                   ? result.problem.costs.stages[static_cast<std::size_t>(s)].activation
                   : 0;
    result.problem.memory_limit.push_back(least + draw.below(static_cast<int>(least) * 2));
  }
  return result;
}

SmallProblem draw_problem_of_rounds(Draw& draw) {
  const bool alike = draw.below(2) == 0;
  SmallProblem result{.problem = {.devices = 2, .microbatches = draw.once_in(8) ? 4 : 3, .costs = {}},
                      .device_of = looped_placement(2)};
  Costs& costs = result.problem.costs;
  const Nanoseconds hop = draw.below(28);
  for (int s = 0; s < 2; ++s) {
    const Bytes activation = 2 + draw.below(3);
    const StageCosts one{.forward = 1 + draw.below(9),
                         .backward_input = 1 + draw.below(9),
                         .backward_weight = 1 + draw.below(9),
                         .activation = activation,
                         .kept_for_weight = draw.below(static_cast<int>(activation) + 1)};
    costs.stages.push_back(alike && s > 0 ? costs.stages[0] : one);
    if (s > 0) costs.hops.push_back({.latency = alike ? hop : draw.below(28)});
    result.problem.memory_limit.push_back(costs.stages.back().activation * (1 + draw.below(2)) +
                                          draw.below(2));
  }
  return result;
}

Nanoseconds shortest(const SmallProblem& small, Objective objective) {
  return All(small, objective).shortest();
}

}  // namespace weft::test
