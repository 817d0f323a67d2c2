#include <algorithm>
#include <limits>

#include "pipeline/search/rounds.hpp"
#include "weft/pipeline/certificate.hpp"

namespace weft::pipeline {
namespace {

using detail::Rounds;

constexpr Bytes no_limit = std::numeric_limits<Bytes>::max();

/// The least time to work through `bytes`, or the most that may be worked on while they are held: times are
/// spread evenly over bytes, which favours the bound's opponent in both.
struct Rate {
  Nanoseconds time = 0;
  Bytes bytes = 0;

  bool above(const Rate& other) const { return __int128{time} * other.bytes > __int128{other.time} * bytes; }
  Nanoseconds of(Bytes whole) const { return static_cast<Nanoseconds>(__int128{time} * whole / bytes); }
};

/// Ways through the pipeline, by stage.
struct Ways {
  explicit Ways(const Problem& problem, const std::vector<int>& device_of) {
    const auto& stages = problem.costs.stages;
    const std::size_t count = stages.size();
    to.resize(count);
    beyond.resize(count);
    back.resize(count);
    const auto delay = [&](std::size_t s) {
      return device_of[s] == device_of[s + 1] ? Nanoseconds{0} : problem.costs.hops[s].delay();
    };
    for (std::size_t s = 0; s + 1 < count; ++s) {
      to[s + 1] = to[s] + stages[s].forward + delay(s);
      back[s + 1] = back[s] + stages[s].backward_input + delay(s);
    }
    for (std::size_t s = count - 1; s-- > 0;)
      beyond[s] = beyond[s + 1] + 2 * delay(s) + stages[s + 1].forward + stages[s + 1].backward_input;
  }

  std::vector<Nanoseconds> to;      // from the first forward's start to this one's
  std::vector<Nanoseconds> beyond;  // from this forward's end to its input gradient's start
  std::vector<Nanoseconds> back;    // from this input gradient's end to the first stage's
};

/// What one device cannot avoid.
struct Device {
  Nanoseconds head = 0, forwards = 0, inputs = 0, weights = 0;
  Nanoseconds idle_before = 0, idle_after = 0, forced_weights = 0, way_back = 0;
};

class DeviceView {
 public:
  DeviceView(const Problem& problem, const std::vector<int>& device_of, const Ways& ways, int device)
      : problem_(problem), ways_(ways) {
    for (std::size_t s = 0; s < device_of.size(); ++s) {
      if (device_of[s] == device) stages_.push_back(s);
    }
    limit_ = problem.memory_limit.empty() ? no_limit : problem.memory_limit[static_cast<std::size_t>(device)];
  }

  /// The bound for the last `count` microbatches alone.
  Device figures(std::int64_t count) const {
    Device result;
    Bytes all = 0;
    for (const std::size_t s : stages_) {
      result.forwards += count * cost(s).forward;
      result.inputs += count * cost(s).backward_input;
      result.weights += count * cost(s).backward_weight;
      all += count * cost(s).activation;
    }
    result.head = ways_.to[stages_.front()];
    result.way_back = ways_.back[stages_.front()];
    if (all > limit_) {
      result.idle_before = std::max<Nanoseconds>(0, there_and_back() - most_forwards());
      result.idle_after = std::max<Nanoseconds>(0, last_there_and_back() - most_rest());
      result.forced_weights = forced_weights(all, count);
    } else {
      result.idle_before = std::max<Nanoseconds>(0, there_and_back() - result.forwards);
    }
    return result;
  }

  /// Microbatches that memory holds; 0 where rounds prove nothing: several stages, or all fit.
  std::int64_t held_at_once() const {
    const Bytes each = cost(stages_.front()).activation;
    if (stages_.size() > 1 || each == 0 || limit_ / each >= problem_.microbatches) return 0;
    return limit_ / each;
  }
  /// From a forward's start until it has made room for another, at the earliest.
  Nanoseconds turn() const {
    const StageCosts& only = cost(stages_.front());
    return there_and_back() + only.backward_input + only.backward_weight;
  }
  Rounds rounds(bool crossings) const { return {problem_, stages_.front(), limit_, crossings}; }

 private:
  const StageCosts& cost(std::size_t s) const { return problem_.costs.stages[s]; }

  /// First forward's start to first input gradient's start.
  Nanoseconds there_and_back() const {
    const std::size_t first = stages_.front(), last = stages_.back();
    return ways_.to[last] - ways_.to[first] + cost(last).forward + ways_.beyond[last];
  }
  /// Last forward's end to that microbatch's last weight gradient's end.
  Nanoseconds last_there_and_back() const {
    const std::size_t first = stages_.front(), last = stages_.back();
    return ways_.beyond[last] + cost(last).backward_input + ways_.back[last] - ways_.back[first] +
           cost(first).backward_weight;
  }
  Nanoseconds most_forwards() const {
    if (stages_.size() == 1) {
      return limit_ / cost(stages_[0]).activation * cost(stages_[0]).forward;
    }
    Rate best{0, 1};
    for (const std::size_t s : stages_) {
      const Rate one{cost(s).forward, cost(s).activation};
      if (one.bytes == 0) return std::numeric_limits<Nanoseconds>::max() / 4;
      if (one.above(best)) best = one;
    }
    return best.of(limit_);
  }
  Nanoseconds most_rest() const {
    const StageCosts& only = cost(stages_[0]);
    if (stages_.size() == 1 && only.kept_for_weight == only.activation)
      return limit_ / only.activation * only.backward();
    Rate best{0, 1};
    for (const std::size_t s : stages_) {
      for (const Rate one : {Rate{cost(s).backward(), cost(s).activation},
                             Rate{cost(s).backward_weight, cost(s).kept_for_weight}}) {
        if (one.bytes == 0) return std::numeric_limits<Nanoseconds>::max() / 4;
        if (one.above(best)) best = one;
      }
    }
    return best.of(limit_) + 1;
  }
  /// Weight gradients that come before the last forward, because they must make room for it. Input gradients
  /// make room first: all of them but the last microbatch's.
  Nanoseconds forced_weights(Bytes all, std::int64_t count) const {
    Bytes by_inputs = 0;
    for (const std::size_t s : stages_)
      by_inputs += (count - 1) * (cost(s).activation - cost(s).kept_for_weight);
    const Bytes missing = all - limit_ - by_inputs;
    if (missing <= 0) return 0;
    if (stages_.size() == 1) {
      const StageCosts& only = cost(stages_[0]);
      return (missing + only.kept_for_weight - 1) / only.kept_for_weight * only.backward_weight;
    }
    Rate least{std::numeric_limits<Nanoseconds>::max(), 1};
    for (const std::size_t s : stages_) {
      const Rate one{cost(s).backward_weight, cost(s).kept_for_weight};
      if (one.bytes > 0 && least.above(one)) least = one;
    }
    return least.of(missing);
  }

  const Problem& problem_;
  const Ways& ways_;
  std::vector<std::size_t> stages_;
  Bytes limit_ = no_limit;
};

/// A device with one stage, as the arguments of warm-ups and cool-downs see it: its first, or its last, input
/// gradient begins after whole actions of one kind.
struct InTurn {
  Nanoseconds before = 0;   // from its first start: what comes before that gradient in any case
  Nanoseconds action = 0;   // duration of one action
  std::int64_t most = 0;    // how many actions can come before that gradient
  Nanoseconds to_next = 0;  // what that gradient waits longer than that of the next device
  Nanoseconds busy = 0;     // the step without idle time before that gradient
};

/// A device that cannot end in time, however the other devices delay their input gradients; -1 if all can. An
/// idle device may do one more action, if there is one; its input gradient then waits.
int late_device(const std::vector<InTurn>& devices, Nanoseconds in_time) {
  Nanoseconds begin = 0;  // of the gradient, from the start of the device's first forward
  for (std::size_t d = devices.size(); d-- > 0;) {
    const InTurn& one = devices[d];
    begin = std::max(begin + one.to_next, one.before);
    const std::int64_t actions = std::min(one.most, (begin - one.before) / one.action);
    const Nanoseconds filled = one.before + actions * one.action;
    if (begin - filled <= in_time - one.busy) continue;
    if (actions == one.most) return static_cast<int>(d);
    begin = filled + one.action;
  }
  return -1;
}

class Bounder {
 public:
  Bounder(const Problem& problem, const std::vector<int>& device_of, Objective objective)
      : problem_(problem), device_of_(device_of), ways_(problem, device_of) {
    best_.objective = objective;
  }

  Certificate run() {
    int slowest = -1;  // with the longest turn of a microbatch's room
    double longest = 0;
    for (int device = 0; device < problem_.devices; ++device) {
      const DeviceView view = look_at(device);
      offer_after(view, device, 0, 0);
      if (view.held_at_once() == 0) continue;
      offer_rounds(view, device, false);
      const double turn = static_cast<double>(view.turn()) / static_cast<double>(view.held_at_once());
      if (turn > longest) slowest = device;
      longest = std::max(longest, turn);
    }
    // Crossings are slow to compute. They are computed for the device whose bound they are most likely to
    // raise, and for the best device so far.
    const int best = best_.device;
    if (slowest >= 0) offer_rounds(look_at(slowest), slowest, true);
    if (best != slowest && look_at(best).held_at_once() > 0) offer_rounds(look_at(best), best, true);
    if (device_of_.size() == static_cast<std::size_t>(problem_.devices)) offer_in_turn();
    return best_;
  }

 private:
  DeviceView look_at(int device) const { return {problem_, device_of_, ways_, device}; }

  void offer(Nanoseconds bound, Argument argument, int device, int after) {
    if (bound > best_.bound) best_ = {best_.objective, bound, argument, device, after};
  }
  /// About the microbatches that are left, whose first forward begins no earlier.
  void offer_after(const DeviceView& view, int device, int after, Nanoseconds begin) {
    const Device d = view.figures(problem_.microbatches - after);
    const Nanoseconds busy = begin + d.forwards + d.inputs + d.idle_before;
    const Nanoseconds head = best_.objective == Objective::makespan ? d.head : 0;
    offer(head + busy + d.weights + d.idle_after, Argument::load, device, after);
    offer(d.head + busy + d.forced_weights + last_way(d), Argument::stream, device, after);
  }
  void offer_rounds(const DeviceView& view, int device, bool crossings) {
    const Rounds rounds = view.rounds(crossings);
    for (int after = 1; after < problem_.microbatches; ++after)
      offer_after(view, device, after, rounds.begin(static_cast<std::size_t>(after)));
    const Device d = view.figures(1);
    offer(d.head + rounds.end() + last_way(d), Argument::rounds, device, 0);
  }
  void offer_in_turn() {
    const auto& stages = problem_.costs.stages;
    std::vector<InTurn> warm_ups, cool_downs;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const Device d = look_at(device_of_[s]).figures(problem_.microbatches);
      const Nanoseconds pairs = d.forwards + d.inputs;
      const Nanoseconds head = best_.objective == Objective::makespan ? d.head : 0;
      const Nanoseconds next =
          s + 1 < stages.size() ? 2 * problem_.costs.hops[s].delay() + stages[s + 1].backward_input : 0;
      warm_ups.push_back({.action = stages[s].forward,
                          .most = most_forwards(s),
                          .to_next = stages[s].forward + next,
                          .busy = std::max(head + pairs + d.weights + d.idle_after,
                                           d.head + pairs + d.forced_weights + last_way(d))});
      cool_downs.push_back({.before = pairs - stages[s].backward_input,
                            .action = stages[s].backward_weight,
                            .most = problem_.microbatches - 1,
                            .to_next = stages[s].forward + next,
                            .busy = head + pairs + d.weights});
    }
    offer_latest(warm_ups, Argument::warm_ups);
    offer_latest(cool_downs, Argument::cool_downs);
  }
  /// The longest time in which some device still cannot end, found by halves; one action more than the bound
  /// so far mostly is enough for all.
  void offer_latest(const std::vector<InTurn>& devices, Argument argument) {
    Nanoseconds late = best_.bound - 1, in_time = best_.bound;
    for (const InTurn& one : devices) in_time = std::max(in_time, best_.bound + one.action);
    while (late_device(devices, in_time) >= 0) in_time += in_time - late;
    while (in_time - late > 1) {
      const Nanoseconds middle = late + (in_time - late) / 2;
      (late_device(devices, middle) < 0 ? in_time : late) = middle;
    }
    const int stage = late_device(devices, late);
    if (stage >= 0) offer(in_time, argument, device_of_[static_cast<std::size_t>(stage)], 0);
  }
  std::int64_t most_forwards(std::size_t s) const {
    const Bytes each = problem_.costs.stages[s].activation;
    if (problem_.memory_limit.empty() || each == 0) return problem_.microbatches;
    const Bytes limit = problem_.memory_limit[static_cast<std::size_t>(device_of_[s])];
    return std::min<std::int64_t>(problem_.microbatches, limit / each);
  }

  /// From the device's last input gradient on.
  Nanoseconds last_way(const Device& d) const {
    return d.way_back + problem_.costs.stages[0].backward_weight;
  }

  const Problem& problem_;
  const std::vector<int>& device_of_;
  Ways ways_;
  Certificate best_;
};

}  // namespace

Certificate lower_bound(const Problem& problem, const std::vector<int>& device_of, Objective objective) {
  return Bounder(problem, device_of, objective).run();
}

}  // namespace weft::pipeline
