#include "pipeline/search/rule_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::pipeline::detail {
namespace {

/// For each device: how many of its chunks' activations are in flight if nothing waits, from the way of a
/// microbatch from its first forward there to the last input gradient there.
std::vector<double> needed(const Problem& problem, const std::vector<int>& device_of) {
  const auto& stages = problem.costs.stages;
  const std::size_t count = stages.size();
  std::vector<Nanoseconds> busy(static_cast<std::size_t>(problem.devices));
  for (std::size_t s = 0; s < count; ++s)
    busy[static_cast<std::size_t>(device_of[s])] += stages[s].forward + stages[s].backward_input;
  const double cycle = static_cast<double>(*std::ranges::max_element(busy));
  std::vector<double> result(busy.size());
  Nanoseconds beyond = 0;  // from the start of a stage's forward to the end of its input gradient
  for (std::size_t s = count; s-- > 0;) {
    if (s + 1 < count && device_of[s] != device_of[s + 1]) beyond += 2 * problem.costs.hops[s].delay();
    beyond += stages[s].forward + stages[s].backward_input;
    result[static_cast<std::size_t>(device_of[s])] += static_cast<double>(beyond) / cycle;
  }
  return result;
}

/// Whether a weight gradient takes as long as both ways over the hop behind its stage, or longer.
bool hops_are_short(const Costs& costs) {
  for (std::size_t s = 0; s < costs.hops.size(); ++s) {
    if (2 * costs.hops[s].delay() > costs.stages[s].backward_weight) return false;
  }
  return true;
}

/// For each device of one stage: how many weight gradients fit between its last input gradient and the end,
/// while that gradient travels on to the first stage. If the objective is the span, the device has also begun later.
std::vector<int> weights_at_the_end(const Problem& problem, Objective objective) {
  std::vector<int> result;
  Nanoseconds way = 0;
  for (std::size_t s = 0; s < problem.costs.stages.size(); ++s) {
    const StageCosts& stage = problem.costs.stages[s];
    result.push_back(
        static_cast<int>(std::min<Nanoseconds>(way / stage.backward_weight, problem.microbatches)));
    if (s == problem.costs.hops.size()) break;
    way += stage.backward_input + problem.costs.hops[s].delay();
    if (objective == Objective::span) way += stage.forward + problem.costs.hops[s].delay();
  }
  return result;
}

}  // namespace

RuleSearch::RuleSearch(const Problem& problem, const std::vector<int>& device_of, Objective objective,
                       Nanoseconds bound)
    : objective_(objective),
      bound_(bound),
      scheduler_(problem, device_of),
      microbatches_(problem.microbatches),
      actions_(std::int64_t{3} * problem.microbatches * problem.stages()),
      costs_(problem.costs),
      need_(needed(problem, device_of)) {
  for (int d = 0; d < problem.devices; ++d) {
    Bytes all = 0;
    for (std::size_t s = 0; s < device_of.size(); ++s)
      all += device_of[s] == d ? problem.costs.stages[s].activation : 0;
    const int most = microbatches_ * problem.chunks();
    const bool limited = !problem.memory_limit.empty() && all > 0;
    const Bytes fit =
        limited ? problem.memory_limit[static_cast<std::size_t>(d)] * problem.chunks() / all : most;
    room_.push_back(static_cast<int>(std::min<Bytes>(fit, most)));
  }
  short_hops_ = one_stage_each() && hops_are_short(problem.costs);
  if (short_hops_) last_ = weights_at_the_end(problem, objective);
}

void RuleSearch::offer(const std::vector<Rules>& rules, Best& best) {
  // A span may be the better of two although its makespan is not.
  const bool by_span = objective_ == Objective::span;
  const Drawn drawn = scheduler_.draw(rules, nullptr, by_span ? never : best.length + 1, bound_);
  placed_ += actions_;
  if (!drawn.finished) return;
  const Nanoseconds length = by_span ? drawn.span : drawn.makespan;
  if (length <= best.length) best = {rules, length};
  if (&best != &in_step_ && drawn.excess <= least_excess_.length) least_excess_ = {rules, drawn.excess};
}

std::vector<Rules> RuleSearch::uniform(double fill, int forward, int weight, bool keep_weights,
                                       bool later_first) const {
  std::vector<Rules> result;
  for (std::size_t d = 0; d < need_.size(); ++d) {
    Rules rules{.forward_overlap = forward, .weight_overlap = weight, .later_stage_first = later_first};
    rules.fill = static_cast<int>(std::min(std::ceil(fill * need_[d] - 1e-9), 1e9));
    if (keep_weights) rules.weights_kept = std::max(0, room_[d] - rules.fill);
    result.push_back(rules);
  }
  return result;
}

/// A microbatch less in flight from device to device, and room for as many weight gradients to wait: forwards
/// pass all devices without a stop where hops are short.
std::vector<Rules> RuleSearch::in_step(int behind) const {
  std::vector<Rules> result(need_.size());
  for (std::size_t d = 0; d < result.size(); ++d) {
    result[d].step = std::max(1, room_[d] - static_cast<int>(d));
    result[d].weights_behind = std::min(behind, room_[d] - result[d].step);
    result[d].weights_last = last_[d];
  }
  return result;
}

bool RuleSearch::try_known(std::int64_t effort) {
  struct Known {
    double fill;
    int forward, weight;
    bool keep;
  };
  static constexpr std::array known{
      Known{0, 0, 0, false},      Known{1, 0, 0, true},       Known{0, 0, 500, false},
      Known{0, 500, 500, false},  Known{1.5, 0, 0, true},     Known{2, 0, 0, false},
      Known{1, 0, 500, true},     Known{1, 0, 0, false},      Known{0, 0, 1000, false},
      Known{1.25, 0, 500, false}, Known{1.5, 0, 500, false},  Known{2, 0, 500, true},
      Known{0, 1000, 500, false}, Known{0, 500, 1000, false}, Known{0.75, 0, 0, false},
      Known{0.75, 0, 500, true},  Known{1.25, 0, 0, true},    Known{100, 0, 500, false}};
  const std::int64_t end = placed_ + std::max(effort, 3 * actions_);
  for (const bool later_first : {true, false}) {
    for (const Known& one : known) {
      offer(uniform(one.fill, one.forward, one.weight, one.keep, later_first), best_);
      if (done() || placed_ >= end) return done();
    }
    if (one_stage_each()) break;  // nothing to choose
  }
  return false;
}

bool RuleSearch::try_in_step() {
  if (!short_hops_) return false;
  for (const int behind : {microbatches_, 2, 1}) {
    offer(in_step(behind), in_step_);
    if (done() || objective_ == Objective::span) break;
  }
  return done();
}

/// For each device, from the last to the first: as many forwards as fill the time until its first input
/// gradient can be there; and one more if the device would otherwise be idle for longer than a span of that
/// length allows. Then that gradient waits, and with it the gradients of all devices before. Empty if memory holds too
/// few.
std::vector<int> RuleSearch::warm_ups(Nanoseconds span) const {
  std::vector<int> result(need_.size());
  Nanoseconds first = 0;
  for (std::size_t s = result.size(); s-- > 0;) {
    const StageCosts& one = costs_.stages[s];
    if (s < costs_.hops.size()) first += 2 * costs_.hops[s].delay() + costs_.stages[s + 1].backward_input;
    first += one.forward;
    result[s] = static_cast<int>(std::min<Nanoseconds>(room_[s], first / one.forward));
    if (first - result[s] * one.forward <= span - microbatches_ * one.total()) continue;
    if (result[s] == room_[s]) return {};
    first = ++result[s] * one.forward;
  }
  return result;
}

/// With the least idle time that warm-ups can have, which leaves most for the end.
std::vector<int> RuleSearch::shortest_warm_ups() const {
  Nanoseconds too_short = 0, enough = bound_;
  while (enough - too_short > 1) {
    const Nanoseconds middle = too_short + (enough - too_short) / 2;
    (warm_ups(middle).empty() ? too_short : enough) = middle;
  }
  return warm_ups(enough);
}

bool RuleSearch::try_warm_ups(std::int64_t effort) {
  if (!one_stage_each() || objective_ == Objective::makespan) return false;
  const std::int64_t end = placed_ + std::max(effort, 2 * actions_);
  const std::array warm_ups_of{warm_ups(bound_), shortest_warm_ups()};
  struct Start {
    std::size_t warm_ups;
    int weight, on_time;
  };
  for (const Start& start : {Start{0, 0, 0}, Start{1, 500, 0}, Start{1, 0, 0}, Start{1, 250, 0},
                             Start{0, 250, 0}, Start{0, 250, 1}, Start{0, 250, 2}, Start{0, 500, 0}}) {
    const std::vector<int>& first = warm_ups_of[start.warm_ups];
    if (first.empty()) return false;
    std::vector<Rules> rules(first.size(), {.weight_overlap = start.weight, .on_time = start.on_time});
    for (std::size_t d = 0; d < rules.size(); ++d) rules[d].first = first[d];
    offer(rules, walked_);
    if (done() || placed_ >= end) return done();
  }
  return false;
}

void RuleSearch::change(std::vector<Rules>& rules, std::size_t kinds, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::size_t devices = rules.size();
  const std::size_t begin = below(devices);
  const std::size_t end = below(2) == 0 ? begin + 1 : begin + 1 + below(devices - begin);
  static constexpr std::array overlaps{0, 250, 500, 750, 1000, 1500};
  const std::size_t kind = below(kinds);
  const int overlap = overlaps[below(overlaps.size())];
  const bool none = below(3) == 0;
  const int step = static_cast<int>(below(5)) - 2;
  const double part = static_cast<double>(below(1000)) / 500;
  for (std::size_t d = begin; d < end; ++d) {
    Rules& one = rules[d];
    if (kind == 0) one.forward_overlap = overlap;
    if (kind == 1) one.weight_overlap = overlap;
    if (kind == 2)
      one.weights_kept = none ? 1 << 30 : std::max(0, std::clamp(one.weights_kept, 0, room_[d]) + step);
    if (kind == 3) one.fill = none ? 0 : std::max(0, std::min(one.fill, room_[d]) + step);
    if (kind == 4) one.fill = static_cast<int>(part * need_[d]);
    if (kind == 5)
      one.depth = none ? 1 << 30 : std::max(1, static_cast<int>(part * std::max(need_[d], room_[d] * 0.5)));
    if (kind == 6) one.first = std::clamp(one.first + (step > 0 ? 1 : -1), 0, room_[d]);
    if (kind == 7) one.on_time = std::max(0, one.on_time + step);
  }
}

/// The longest span is that of many devices, so that few changes make it shorter. So every second one is of
/// the rules whose excess over all devices is least; and of these every fourth of the shortest, by other
/// ways.
bool RuleSearch::improve(std::int64_t effort) {
  const std::int64_t end = placed_ + effort;
  for (int n = 0; best_.length < never && !done() && placed_ + actions_ <= end; ++n) {
    const bool walk = objective_ == Objective::span && n % 2 == 1;
    std::vector<Rules> rules = !walk ? best_.rules : n % 8 == 7 ? shortest().rules : least_excess_.rules;
    if (walk)
      change(rules, one_stage_each() ? 8 : 6, random_walk_);
    else
      change(rules, 6, random_);
    offer(rules, walk ? walked_ : best_);
  }
  return done();
}

Schedule RuleSearch::best() {
  Schedule result{
      .name = "synthesized", .microbatches = microbatches_, .device_of = scheduler_.device_of(), .rows = {}};
  scheduler_.draw(shortest().length <= in_step_.length ? shortest().rules : in_step_.rules, &result.rows);
  return result;
}

}  // namespace weft::pipeline::detail
