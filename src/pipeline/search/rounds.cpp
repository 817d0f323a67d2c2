#include "pipeline/search/rounds.hpp"

#include <algorithm>
#include <limits>

namespace weft::pipeline::detail {
namespace {

constexpr Nanoseconds unbounded = std::numeric_limits<Nanoseconds>::max() / 4;

}  // namespace

Rounds::Rounds(const Problem& problem, std::size_t stage, Bytes limit, bool crossings)
    : own_(problem.costs.stages[stage]),
      count_(problem.microbatches),
      held_(static_cast<std::size_t>(limit / own_.activation)),
      spare_(limit % own_.activation),
      all_(-unbounded),
      pairs_(-unbounded) {
  const auto count = static_cast<std::size_t>(count_);
  begin_.reserve(count);
  through_.reserve(count);
  set_ways(problem.costs, stage);
  set_work_between(crossings ? held_ : 1);
  for (std::size_t n = 0; n < count; ++n) {
    begin_.push_back(n == 0 ? 0 : begin_[n - 1] + own_.forward);
    if (n >= held_) begin_[n] = std::max(begin_[n], room(n));
    if (crossings && n >= held_) cross_begin(n);
    on_last_ = n == 0 ? 0 : std::max(begin_[n], on_last_ + last_);
    through_.push_back(on_last_ + way_);
    if (n > 0)
      through_[n] = std::max(through_[n], through_[n - 1] + problem.costs.stages.back().backward_input);
    if (crossings && n >= held_) cross_end(n);
  }
}

void Rounds::set_ways(const Costs& costs, std::size_t stage) {
  const auto here = [&](std::size_t s) { return costs.stages[s].forward + costs.stages[s].backward_input; };
  last_ = here(costs.stages.size() - 1);
  Nanoseconds before = 0;  // what a microbatch passes twice on its way to s and back
  for (std::size_t s = stage; s < costs.stages.size(); ++s) {
    near_.push_back(before + here(s));
    far_.push_back(-before);
    if (s < costs.hops.size()) before += here(s) + 2 * costs.hops[s].delay();
  }
  way_ = near_.back();
  for (Nanoseconds& one : far_) one += way_;
}

/// A forward needs the room of an earlier microbatch, and so many more input gradients are through: of the
/// weight gradients up to that microbatch's, so many need not be.
std::int64_t Rounds::weights_free(std::size_t more) const {
  if (own_.kept_for_weight == 0) return count_;
  const Bytes room = static_cast<Bytes>(more) * (own_.activation - own_.kept_for_weight) + spare_;
  return std::min(count_, room / own_.kept_for_weight);
}

void Rounds::set_work_between(std::size_t count) {
  for (std::size_t h = 0; h < count; ++h) {
    const auto between = static_cast<std::int64_t>(h);
    Nanoseconds least = unbounded;
    for (std::size_t more = 0; more < held_; ++more) {
      const std::int64_t weights = std::max<std::int64_t>(0, between + 1 - weights_free(more));
      const auto inputs = static_cast<std::int64_t>(h + more);
      least = std::min(least, inputs * own_.backward_input + weights * own_.backward_weight);
      if (weights == 0) break;
    }
    between_.push_back(between * own_.forward + least);
  }
}

/// More input gradients leave fewer weight gradients to do first: the schedule's choice, so that the least
/// counts. Only a few are tried, and of more no more is said than that they are through.
Nanoseconds Rounds::room(std::size_t n) {
  const std::size_t from = n - held_;
  all_ = std::max(through_[from], all_ + own_.total());
  pairs_ = std::max(through_[from], pairs_ + own_.forward + own_.backward_input);
  const bool choice = own_.kept_for_weight > 0 && own_.kept_for_weight < own_.activation;
  const std::size_t most = choice ? std::min<std::size_t>(held_ - 1, 8) : 0;
  Nanoseconds least = unbounded;
  for (std::size_t more = 0; more <= most && through_[from + more] < least; ++more) {
    const Nanoseconds inputs = static_cast<Nanoseconds>(more) * own_.backward_input;
    const Nanoseconds weights = (1 - weights_free(more)) * own_.backward_weight;
    least = std::min(least, std::max({through_[from + more], pairs_ + inputs, all_ + inputs + weights}));
  }
  return most + 1 < held_ && choice ? std::min(least, std::max(pairs_, through_[from + most + 1])) : least;
}

/// The smaller of both, on the device where that is greatest: one grows from device to device, one falls.
Nanoseconds Rounds::crossing(Nanoseconds if_before, Nanoseconds if_after) const {
  std::size_t low = 0, high = near_.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if_before + near_[middle] < if_after + far_[middle] ? low = middle + 1 : high = middle;
  }
  const auto smaller = [&](std::size_t at) { return std::min(if_before + near_[at], if_after + far_[at]); };
  return low == 0 ? smaller(0) : std::max(smaller(low - 1), smaller(low));
}

/// The forward whose room this one needs against the input gradients before it: either theirs is late, and
/// this one with as many more to do as lie between; or it was late itself. And the forwards a round ago
/// against the input gradient two rounds ago: either its room was late, or they were.
void Rounds::cross_begin(std::size_t n) {
  const auto cross = [&](Nanoseconds if_before, Nanoseconds if_after) {
    if (if_before + near_.back() > begin_[n] && if_after + far_.front() > begin_[n])
      begin_[n] = std::max(begin_[n], crossing(if_before, if_after));
  };
  const std::size_t j = n - held_;
  for (std::size_t h = 1; h < held_ && h <= j; ++h)
    cross(begin_[j] + between_[h], through_[j - h] + between_[0]);
  if (j < held_) return;
  for (std::size_t h = 1; h < held_; ++h)
    cross(begin_[j - h] + way_ + 2 * between_[0], through_[j - held_] + between_[h]);
}

/// Raises the end of input gradient n by the crossing of the forwards before it with the input gradient a round before.
void Rounds::cross_end(std::size_t n) {
  for (std::size_t h = 1; h < held_; ++h) {
    const Nanoseconds if_before = begin_[n - h] + way_ + between_[0];
    const Nanoseconds if_after = through_[n - held_] + static_cast<Nanoseconds>(h) * last_;
    if (if_before + near_.back() <= through_[n] || if_after + far_.front() <= through_[n]) continue;
    through_[n] = std::max(through_[n], crossing(if_before, if_after));
  }
}

}  // namespace weft::pipeline::detail
