// Every order in which devices and transfers can move.

#include <algorithm>
#include <unordered_set>

#include "unit/pipeline/verify/oracle.hpp"
#include "unit/pipeline/verify/oracle_questions.hpp"

namespace weft::test {
namespace oracle {
namespace {

long visited_states = 0;

/// An entry or a pair, which moves as one, and what must have happened before.
struct Step {
  struct Need {
    int device;  ///< that has passed this step; or -1:
    int step;
    int direction;  ///< in which more than this number of transfers are done
    int number;
  };
  std::vector<Need> needs;
};

struct Direction {
  struct Transfer {
    int sent_by, received_by;  ///< steps
  };
  int from, to;
  std::vector<Transfer> transfers;
};

/// Every device's row as steps, every direction's transfers, and all orders in which they can move.
class Orders {
 public:
  explicit Orders(const Asked& asked) : asked_(asked), has_transfers_(asked.has_transfers()) {
    for (int device = 0; device < asked.schedule.devices(); ++device) {
      step_of_.emplace_back();
      int step = -1;
      for (int at = 0; at < asked.entries(device); ++at) {
        if (asked.start(device, at) == at) ++step;
        step_of_.back().push_back(step);
      }
      steps_.emplace_back(static_cast<std::size_t>(step + 1));
    }
    if (has_transfers_) add_directions();
    for (int device = 0; device < asked.schedule.devices(); ++device) {
      for (int at = 0; at < asked.entries(device); ++at) add_needs(device, at);
    }
  }

  /// Whether a state can be reached from which nothing moves, before the end.
  bool can_get_stuck() const {
    std::unordered_set<std::uint64_t> visited;
    std::vector<State> to_do{State(steps_.size() + directions_.size(), 0)};
    visited.insert(key(to_do[0]));
    while (!to_do.empty()) {
      const State state = to_do.back();
      to_do.pop_back();
      ++visited_states;
      bool moved = false;
      for (std::size_t who = 0; who < state.size(); ++who) {
        if (!can_move(state, who)) continue;
        moved = true;
        State next = state;
        ++next[who];
        if (visited.insert(key(next)).second) to_do.push_back(std::move(next));
      }
      if (!moved && !is_end(state)) return true;
    }
    return false;
  }

 private:
  /// Steps that each device has passed, then transfers done in each direction.
  using State = std::vector<std::uint8_t>;

  std::uint64_t key(const State& state) const {
    std::uint64_t result = 0;
    for (std::size_t who = 0; who < state.size(); ++who) result = result * (size_of(who) + 1) + state[who];
    return result;
  }

  std::size_t size_of(std::size_t who) const {
    return who < steps_.size() ? steps_[who].size() : directions_[who - steps_.size()].transfers.size();
  }
  bool is_end(const State& state) const {
    for (std::size_t who = 0; who < state.size(); ++who) {
      if (state[who] < size_of(who)) return false;
    }
    return true;
  }
  bool can_move(const State& state, std::size_t who) const {
    if (state[who] == size_of(who)) return false;
    if (who < steps_.size()) {
      return std::ranges::all_of(steps_[who][state[who]].needs, [&](const Step::Need& need) {
        if (need.device >= 0) return state[static_cast<std::size_t>(need.device)] > need.step;
        return state[steps_.size() + static_cast<std::size_t>(need.direction)] > need.number;
      });
    }
    const Direction& direction = directions_[who - steps_.size()];
    const Direction::Transfer& transfer = direction.transfers[state[who]];
    return state[static_cast<std::size_t>(direction.from)] > transfer.sent_by &&
           state[static_cast<std::size_t>(direction.to)] > transfer.received_by;
  }

  int step(int device, int at) const {
    return step_of_[static_cast<std::size_t>(device)][static_cast<std::size_t>(at)];
  }

  void add_directions() {
    for (int from = 0; from < asked_.schedule.devices(); ++from) {
      for (int to = 0; to < asked_.schedule.devices(); ++to) {
        if (from == to) continue;
        const auto sends = posts(asked_, from, to, true);
        const auto receives = posts(asked_, to, from, false);
        if (sends.empty()) continue;
        directions_.push_back({from, to, {}});
        for (std::size_t k = 0; k < sends.size(); ++k)
          directions_.back().transfers.push_back({step(from, sends[k].entry), step(to, receives[k].entry)});
      }
    }
  }

  void add_needs(int device, int at) {
    const Action& action = asked_.entry(device, at);
    auto& needs = steps_[static_cast<std::size_t>(device)][static_cast<std::size_t>(step(device, at))].needs;
    if (has_transfers_) {
      if (is_transfer(action) && action.awaits) needs.push_back(transfer_of(device, action));
      return;
    }
    if (action.type == forward && asked_.is_there(action.stage - 1))
      needs.push_back(computed(forward, action.stage - 1, action.microbatch));
    if ((action.type == backward || action.type == backward_input) && asked_.is_there(action.stage + 1))
      needs.push_back(computed(asked_.gradient(action.stage + 1, action.microbatch), action.stage + 1,
                               action.microbatch));
  }
  Step::Need computed(ActionType type, int stage, int microbatch) const {
    const int device = asked_.device(stage);
    return {device, step(device, asked_.position(type, stage, microbatch)), -1, -1};
  }
  Step::Need transfer_of(int device, const Action& action) const {
    const int other = asked_.device(other_stage(action));
    const int from = is_send(action) ? device : other;
    const int to = is_send(action) ? other : device;
    const auto posted = posts(asked_, device, other, is_send(action));
    Step::Need need{-1, -1, 0, 0};
    while (directions_[static_cast<std::size_t>(need.direction)].from != from ||
           directions_[static_cast<std::size_t>(need.direction)].to != to)
      ++need.direction;
    const int entry = asked_.position(action.type, action.stage, action.microbatch);
    while (posted[static_cast<std::size_t>(need.number)].entry != entry) ++need.number;
    return need;
  }

  const Asked& asked_;
  const bool has_transfers_;
  std::vector<std::vector<int>> step_of_;  ///< of each device's entries
  std::vector<std::vector<Step>> steps_;   ///< of each device
  std::vector<Direction> directions_;
};

}  // namespace

/// The transfers that a device posts to, or from, another, in order.
std::vector<Posted> posts(const Asked& asked, int device, int other, bool sends) {
  std::vector<Posted> result;
  for (int at = 0; at < asked.entries(device); ++at) {
    const Action& action = asked.entry(device, at);
    if (!is_transfer(action) || action.awaits || is_send(action) != sends) continue;
    if (asked.device(other_stage(action)) != other) continue;
    result.push_back({at, sends ? action.stage : other_stage(action),
                      action.type == send_backward || action.type == receive_backward, action.microbatch});
  }
  return result;
}

bool can_get_stuck(const Asked& asked) {
  return Orders(asked).can_get_stuck();
}

}  // namespace oracle

long states_visited() {
  return oracle::visited_states;
}

}  // namespace weft::test
