#pragma once
// The times of a schedule of computation, computed the slow and obvious way: again and again over all devices
// until nothing changes. Wires hold any number of messages.

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

struct SlowFigures {
  bool complete = false;  ///< every row was executed, and every microbatch computed once by every stage
  Nanoseconds makespan = 0, span = 0, work = 0;
  std::vector<Bytes> peak;
  std::vector<std::vector<Nanoseconds>> begins, ends;

  double bubble_makespan() const { return 1 - static_cast<double>(work) / static_cast<double>(makespan); }
  double bubble_span() const { return 1 - static_cast<double>(work) / static_cast<double>(span); }
  Bytes most_memory() const { return *std::ranges::max_element(peak); }
};

class SlowSimulation {
 public:
  SlowSimulation(const Schedule& schedule, const Problem& problem) : schedule_(schedule), problem_(problem) {}

  SlowFigures run() {
    const std::size_t devices = schedule_.rows.size();
    figures_.peak.resize(devices);
    figures_.begins.resize(devices);
    figures_.ends.resize(devices);
    free_.resize(devices);
    held_.resize(devices);
    for (bool went_on = true; went_on;) {
      went_on = false;
      for (std::size_t device = 0; device < devices; ++device) went_on = step(device) || went_on;
    }
    figures_.complete = complete();
    for (std::size_t device = 0; device < devices && figures_.complete; ++device) {
      Nanoseconds work = 0;
      for (const Action& action : schedule_.rows[device]) work += time_of(action);
      figures_.work = std::max(figures_.work, work);
      figures_.makespan = std::max(figures_.makespan, free_[device]);
      figures_.span = std::max(figures_.span, free_[device] - figures_.begins[device].front());
    }
    return figures_;
  }

 private:
  using Done = std::tuple<ActionType, int, int>;

  const StageCosts& costs(const Action& action) const {
    return problem_.costs.stages[static_cast<std::size_t>(action.stage)];
  }

  Nanoseconds time_of(const Action& action) const {
    switch (action.type) {
      case ActionType::forward:
        return costs(action).forward;
      case ActionType::backward:
        return costs(action).backward();
      case ActionType::backward_input:
        return costs(action).backward_input;
      default:
        return costs(action).backward_weight;
    }
  }

  /// When the input of `action` is on its device, or -1.
  Nanoseconds ready(const Action& action) const {
    const auto end = [&](ActionType type, int stage) {
      const auto found = ends_.find({type, stage, action.microbatch});
      return found == ends_.end() ? Nanoseconds{-1} : found->second;
    };
    const auto from = [&](ActionType type, int other) {
      const Nanoseconds sent = end(type, other);
      const auto device_of = [&](int stage) { return schedule_.device_of[static_cast<std::size_t>(stage)]; };
      const auto hop = static_cast<std::size_t>(std::min(other, action.stage));
      return sent < 0 || device_of(other) == device_of(action.stage)
                 ? sent
                 : sent + problem_.costs.hops[hop].delay();
    };
    if (action.type == ActionType::forward)
      return action.stage == 0 ? 0 : from(ActionType::forward, action.stage - 1);
    if (action.type == ActionType::backward_weight) return end(ActionType::backward_input, action.stage);
    const Nanoseconds own = end(ActionType::forward, action.stage);
    if (own < 0 || action.stage + 1 == schedule_.stages()) return own;
    return std::max(from(ActionType::backward, action.stage + 1),
                    from(ActionType::backward_input, action.stage + 1));
  }

  bool step(std::size_t device) {
    const std::vector<Action>& row = schedule_.rows[device];
    const std::size_t entry = figures_.begins[device].size();
    if (entry == row.size()) return false;
    const std::size_t together = row[entry].overlaps_next ? 2 : 1;
    Nanoseconds begin = free_[device];
    for (std::size_t i = entry; i < entry + together; ++i) {
      const Nanoseconds when = ready(row[i]);
      if (when < 0) return false;
      begin = std::max(begin, when);
    }
    Nanoseconds takes = 0;
    for (std::size_t i = entry; i < entry + together; ++i) takes += time_of(row[i]);
    free_[device] = begin + takes;
    for (std::size_t i = entry; i < entry + together; ++i) {
      figures_.begins[device].push_back(begin);
      figures_.ends[device].push_back(free_[device]);
      if (!ends_.insert({{row[i].type, row[i].stage, row[i].microbatch}, free_[device]}).second)
        twice_ = true;
      if (row[i].type == ActionType::forward) held_[device] += costs(row[i]).activation;
    }
    figures_.peak[device] = std::max(figures_.peak[device], held_[device]);
    for (std::size_t i = entry; i < entry + together; ++i) {
      if (row[i].type == ActionType::backward) held_[device] -= costs(row[i]).activation;
      if (row[i].type == ActionType::backward_input)
        held_[device] -= costs(row[i]).activation - costs(row[i]).kept_for_weight;
      if (row[i].type == ActionType::backward_weight) held_[device] -= costs(row[i]).kept_for_weight;
    }
    return true;
  }

  bool complete() const {
    bool result = !twice_ && std::ranges::all_of(held_, [](Bytes bytes) { return bytes == 0; });
    for (std::size_t device = 0; device < schedule_.rows.size(); ++device)
      result = result && figures_.begins[device].size() == schedule_.rows[device].size();
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch) {
        const auto done = [&](ActionType type) { return ends_.contains({type, stage, microbatch}); };
        result = result && done(ActionType::forward) &&
                 done(ActionType::backward) !=
                     (done(ActionType::backward_input) && done(ActionType::backward_weight)) &&
                 done(ActionType::backward_input) == done(ActionType::backward_weight);
      }
    }
    return result;
  }

  const Schedule& schedule_;
  const Problem& problem_;
  SlowFigures figures_;
  std::vector<Nanoseconds> free_;
  std::vector<Bytes> held_;
  std::map<Done, Nanoseconds> ends_;
  bool twice_ = false;
};

}  // namespace weft::pipeline
