// List scheduling by priorities. A free device considers, of its chunks, each next F and I:
//   1. `best` has the lowest rank of those that are there; `coming` arrives first of the others
//   2. W goes first if a forward of lower rank than `best` lacks memory (make_room)
//   3. else `best`, unless a lower rank is coming before it would end (patient): then W if it fits, or wait
//   4. else W, if it ends before the next arrival, or if it may run anyway (eager_weights, blocked forward)
// Each decision costs time linear in the device's chunks.

#include "pipeline/schedules/cost_aware.hpp"

#include <algorithm>
#include <utility>

#include "pipeline/search/list_engine.hpp"
#include "weft/core/error.hpp"

namespace weft::pipeline::detail {
namespace {

constexpr Nanoseconds never = ListEngine::never;
constexpr int last_rank = std::numeric_limits<int>::max();
constexpr std::int64_t actions_tried = std::int64_t{1} << 16;  // 50 ns each: 3 ms in all

/// An action that a device could begin.
struct Candidate {
  ActionType type = ActionType::forward;
  int chunk = -1;  ///< -1: there is none
  int rank = last_rank;
};

class PriorityScheduler {
 public:
  PriorityScheduler(const Problem& problem, const std::vector<int>& device_of, const PriorityRules& rules)
      : rules_(rules), limits_(problem.memory_limit), engine_(problem, device_of, {}) {
    last_was_forward_.resize(at(problem.devices));
    schedule_.microbatches = problem.microbatches;
    schedule_.device_of = device_of;
  }

  TimedSchedule run(Nanoseconds give_up_at) {
    const auto decides = [this](int device, Nanoseconds now) { return decide(device, now); };
    const bool finished = engine_.run(decides, &schedule_.rows, give_up_at);
    if (engine_.makespan() >= give_up_at) return {engine_.makespan(), engine_.makespan(), {}};
    if (!finished)
      throw Error(ErrorKind::internal, text("list scheduling ended with ", engine_.left(), " actions left"));
    return {engine_.makespan(), engine_.span(), std::move(schedule_)};
  }

 private:
  using Stage = ListEngine::Stage;

  /// The rank of a chunk's F, or I.
  int rank(bool forward, int chunk) const {
    if (rules_.rank.empty()) return forward ? 0 : 1;
    return rules_.rank[at(forward ? chunk : engine_.chunks() + chunk)];
  }

  bool may_begin(const Stage& stage) const {
    return rules_.in_flight.empty() || stage.forwards - stage.inputs < rules_.in_flight[at(stage.number)];
  }

  /// Whether memory holds one more microbatch of this stage, and one of each other stage that still needs
  /// room for its first.
  bool has_room(int index, const Stage& stage) const {
    const ListEngine::Device& device = engine_.device(index);
    int count = device.in_flight + device.weights_waiting + 1;
    Bytes bytes = device.held + stage.costs.activation;
    for (const Stage& other : engine_.stages(index)) {
      if (&other == &stage || other.forwards == engine_.microbatches()) continue;
      if (other.held() == 0) ++count;
      bytes += std::max(Bytes{0}, other.costs.activation - other.held_bytes());
    }
    return (rules_.held.empty() || count <= rules_.held[at(index)]) &&
           (limits_.empty() || bytes <= limits_[at(index)]);
  }

  ListEngine::Choice decide(int device, Nanoseconds now) {
    const auto stages = engine_.stages(device);
    const bool last_was_forward = last_was_forward_[at(device)] != 0;
    Candidate best, coming;
    Nanoseconds comes = never;
    int blocked = last_rank;
    const auto consider = [&](ActionType type, int chunk, Nanoseconds ready) {
      const bool forward = type == ActionType::forward;
      const bool again = forward == last_was_forward;
      const int ranks = rank(forward, chunk) + (rules_.alternate && again ? 2 * engine_.chunks() : 0);
      if (ready <= now ? ranks < best.rank : ready < comes || (ready == comes && ranks < coming.rank)) {
        (ready <= now ? best : coming) = {type, chunk, ranks};
        if (ready > now) comes = ready;
      }
    };
    for (int chunk = 0; chunk < engine_.chunks(); ++chunk) {
      const Stage& stage = stages[at(chunk)];
      if (stage.next_gradient < never) consider(ActionType::backward_input, chunk, stage.next_gradient);
      if (stage.next_forward == never || !may_begin(stage)) continue;
      if (has_room(device, stage))
        consider(ActionType::forward, chunk, stage.next_forward);
      else if (stage.next_forward <= now)
        blocked = std::min(blocked, rank(true, chunk));
    }
    const Candidate weight{ActionType::backward_weight, engine_.oldest_weight(device), 0};
    const Candidate chosen = choose(stages, best, coming, weight, comes, blocked, now);
    if (chosen.chunk < 0) return {.wake = comes};
    if (chosen.type != ActionType::backward_weight)
      last_was_forward_[at(device)] = chosen.type == ActionType::forward;
    return {chosen.chunk, chosen.type};
  }

  Candidate choose(std::span<const Stage> stages, const Candidate& best, const Candidate& coming,
                   const Candidate& weight, Nanoseconds comes, int blocked, Nanoseconds now) const {
    const bool can_weigh = weight.chunk >= 0;
    const bool fits = can_weigh && now + stages[at(weight.chunk)].costs.backward_weight <= comes;
    if (can_weigh && rules_.make_room && blocked < best.rank) return weight;
    if (best.chunk >= 0) {
      const StageCosts& costs = stages[at(best.chunk)].costs;
      const Nanoseconds takes = best.type == ActionType::forward ? costs.forward : costs.backward_input;
      if (!rules_.patient || coming.rank >= best.rank || comes >= now + takes) return best;
      return fits ? weight : Candidate{};
    }
    return can_weigh && (fits || rules_.eager_weights || blocked < last_rank) ? weight : Candidate{};
  }

  const PriorityRules& rules_;
  const std::vector<Bytes>& limits_;  // empty: none
  ListEngine engine_;
  std::vector<char> last_was_forward_;  // of each device: whether its last F or I was F
  Schedule schedule_;
};

bool better(const TimedSchedule& a, const TimedSchedule& b, Objective objective) {
  return objective == Objective::makespan ? std::pair(a.makespan, a.span) < std::pair(b.makespan, b.span)
                                          : std::pair(a.span, a.makespan) < std::pair(b.span, b.makespan);
}

}  // namespace

TimedSchedule cost_aware_schedule(const Problem& problem, const std::vector<int>& device_of,
                                  const PriorityRules& rules, Nanoseconds give_up_at) {
  return PriorityScheduler(problem, device_of, rules).run(give_up_at);
}

TimedSchedule best_cost_aware_schedule(const Problem& problem, const std::vector<int>& device_of,
                                       std::span<const PriorityRules> rules, Objective objective) {
  const std::int64_t actions = std::int64_t{3} * problem.stages() * problem.microbatches;
  const auto tried =
      std::clamp<std::size_t>(static_cast<std::size_t>(actions_tried / actions), 1, rules.size());
  TimedSchedule best = cost_aware_schedule(problem, device_of, rules[0]);
  for (const PriorityRules& one : rules.subspan(1, tried - 1)) {
    // A longer makespan may have the shorter span, so nothing is given up there.
    const Nanoseconds give_up_at =
        objective == Objective::makespan ? best.makespan + 1 : std::numeric_limits<Nanoseconds>::max();
    TimedSchedule next = cost_aware_schedule(problem, device_of, one, give_up_at);
    if (better(next, best, objective)) best = std::move(next);
  }
  return best;
}

}  // namespace weft::pipeline::detail
