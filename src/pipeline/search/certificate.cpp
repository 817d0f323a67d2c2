// The check of certificates. It shares nothing with lower_bound.cpp, and spells out every sum.

#include "weft/pipeline/certificate.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "pipeline/search/certificate_rounds.hpp"

namespace weft::pipeline {
namespace {

/// One device and the stages it has, first and last.
class Checker {
 public:
  Checker(const Problem& problem, const std::vector<int>& device_of, int device)
      : problem_(problem), device_of_(device_of), device_(device), microbatches_(problem.microbatches) {
    for (int s = 0; s < problem.stages(); ++s) {
      if (device_of[static_cast<std::size_t>(s)] != device) continue;
      if (first_ < 0) first_ = s;
      last_ = s;
      mine_.push_back(problem.costs.stages[static_cast<std::size_t>(s)]);
    }
  }

  /// Load and stream are about what is left then. @return whether it is known when that can begin
  bool begin_after(int after) {
    if (after == 0) return true;
    const std::vector<Nanoseconds> begins = recount().forward_begins;
    if (after < 0 || after >= static_cast<int>(begins.size())) return false;
    begin_ = begins[static_cast<std::size_t>(after)];
    microbatches_ -= after;
    return true;
  }

  Nanoseconds load(bool with_head) const { return load_without_fill(with_head) + fill_idle(); }
  Nanoseconds stream() const { return stream_without_fill() + fill_idle(); }

  Nanoseconds rounds() const {
    const std::vector<Nanoseconds> ends = recount().gradient_ends;
    return ends.empty() ? 0 : forwards_before(first_) + ends.back() + way_to_the_end();
  }

  /// How long the device may be idle before its first, or its last, input gradient, if the step is to take so
  /// long.
  Nanoseconds idle_allowed(Nanoseconds length, bool with_head, bool before_last) const {
    if (before_last) return length - load_without_fill(with_head) + drain_idle();
    return length - std::max(load_without_fill(with_head), stream_without_fill());
  }
  /// When the device has done `count` forwards; or, with `before_last`, everything that must come before its
  /// last input gradient, and `count` weight gradients.
  Nanoseconds done_by(std::int64_t count, bool before_last) const {
    const StageCosts& only = mine_[0];
    if (!before_last) return count * only.forward;
    return only.forward + (microbatches() - 1) * (only.forward + only.backward_input) +
           count * only.backward_weight;
  }
  /// How many of these there can be before it.
  std::int64_t most_before(bool before_last) const {
    if (before_last) return microbatches() - 1;
    return everything_fits() ? microbatches() : limit() / mine_[0].activation;
  }

 private:
  std::int64_t microbatches() const { return microbatches_; }
  Nanoseconds load_without_fill(bool with_head) const {
    Nanoseconds work = 0;
    for (const StageCosts& one : mine_) work += microbatches() * one.total();
    return (with_head ? forwards_before(first_) : 0) + begin_ + work + drain_idle();
  }
  Nanoseconds stream_without_fill() const {
    Nanoseconds result = forwards_before(first_) + begin_ + room_made();
    for (const StageCosts& one : mine_) result += microbatches() * (one.forward + one.backward_input);
    return result + way_to_the_end();
  }
  detail::Recount recount() const {
    if (mine_.size() > 1 || problem_.memory_limit.empty()) return {};
    return detail::recount(problem_, first_, limit());
  }
  const StageCosts& stage(int s) const { return problem_.costs.stages[static_cast<std::size_t>(s)]; }
  Nanoseconds wire(int s) const {
    const auto i = static_cast<std::size_t>(s);
    return device_of_[i] == device_of_[i + 1]
               ? 0
               : problem_.costs.hops[i].latency + problem_.costs.hops[i].occupancy;
  }
  bool everything_fits() const { return problem_.memory_limit.empty() || activations() <= limit(); }
  Bytes limit() const { return problem_.memory_limit[static_cast<std::size_t>(device_)]; }
  Bytes activations() const {
    return std::accumulate(mine_.begin(), mine_.end(), Bytes{0}, [&](Bytes sum, const StageCosts& one) {
      return sum + microbatches() * one.activation;
    });
  }

  /// About the device's last input gradient, which goes on to the first stage and there becomes a weight
  /// gradient.
  Nanoseconds way_to_the_end() const {
    Nanoseconds result = stage(0).backward_weight;
    for (int s = first_ - 1; s >= 0; --s) result += wire(s) + stage(s).backward_input;
    return result;
  }

  Nanoseconds forwards_before(int end) const {
    Nanoseconds result = 0;
    for (int s = 0; s < end; ++s) result += stage(s).forward + wire(s);
    return result;
  }

  /// From the start of a forward here to that of the input gradient.
  Nanoseconds way_there_and_back() const {
    Nanoseconds way = 0;
    const int end = problem_.stages() - 1;
    for (int s = first_; s <= end; ++s) way += stage(s).forward + (s < end ? wire(s) : 0);
    for (int s = end; s > last_; --s) way += stage(s).backward_input + wire(s - 1);
    return way;
  }

  /// From the device's first forward to its first input gradient: to the end of the pipeline and back, less
  /// the forwards it can do meanwhile.
  Nanoseconds fill_idle() const {
    const Nanoseconds way = way_there_and_back();
    Nanoseconds filled = 0;
    if (everything_fits()) {
      for (const StageCosts& one : mine_) filled += microbatches() * one.forward;
    } else if (mine_.size() == 1) {
      filled = limit() / mine_[0].activation * mine_[0].forward;
    } else {
      filled = at_best(&StageCosts::forward, &StageCosts::activation);
    }
    return std::max<Nanoseconds>(0, way - filled);
  }

  /// From the end of the device's last forward, which is one of its last stage, until that microbatch has
  /// come back through all of its stages, less what can be left to do then.
  Nanoseconds drain_idle() const {
    if (everything_fits()) return 0;
    Nanoseconds way = 0;
    const int end = problem_.stages() - 1;
    for (int s = last_ + 1; s <= end; ++s) way += wire(s - 1) + stage(s).forward;
    for (int s = end; s >= first_; --s) way += stage(s).backward_input + (s > first_ ? wire(s - 1) : 0);
    way += stage(first_).backward_weight;
    Nanoseconds rest = 0;
    if (mine_.size() == 1 && mine_[0].activation == mine_[0].kept_for_weight) {
      rest = limit() / mine_[0].activation * (mine_[0].backward_input + mine_[0].backward_weight);
    } else {
      for (const StageCosts& one : mine_) {
        if (one.activation == 0 || one.kept_for_weight == 0) return 0;
        rest = std::max({rest, 1 + scaled(one.backward(), limit(), one.activation),
                         1 + scaled(one.backward_weight, limit(), one.kept_for_weight)});
      }
    }
    return std::max<Nanoseconds>(0, way - rest);
  }

  /// Weight gradients before the device's last forward: all activations less what may stay and less what
  /// input gradients free, of all microbatches but the last.
  Nanoseconds room_made() const {
    if (everything_fits()) return 0;
    Bytes missing = activations() - limit();
    for (const StageCosts& one : mine_)
      missing -= (microbatches() - 1) * (one.activation - one.kept_for_weight);
    if (missing <= 0) return 0;
    if (mine_.size() == 1) {
      std::int64_t count = missing / mine_[0].kept_for_weight;
      if (count * mine_[0].kept_for_weight < missing) ++count;
      return count * mine_[0].backward_weight;
    }
    Nanoseconds least = -1;
    for (const StageCosts& one : mine_) {
      if (one.kept_for_weight == 0) continue;
      const Nanoseconds taken = scaled(one.backward_weight, missing, one.kept_for_weight);
      least = least < 0 ? taken : std::min(least, taken);
    }
    return std::max<Nanoseconds>(0, least);
  }

  static Nanoseconds scaled(Nanoseconds time, Bytes bytes, Bytes each) {
    return static_cast<Nanoseconds>(__int128{time} * bytes / each);
  }
  Nanoseconds at_best(Nanoseconds StageCosts::*time, Bytes StageCosts::*bytes) const {
    Nanoseconds best = 0;
    for (const StageCosts& one : mine_) {
      if (one.*bytes == 0)
        return microbatches() *
               std::accumulate(mine_.begin(), mine_.end(), Nanoseconds{0},
                               [&](Nanoseconds sum, const StageCosts& each) { return sum + each.*time; });
      best = std::max(best, scaled(one.*time, limit(), one.*bytes));
    }
    return best;
  }

  const Problem& problem_;
  const std::vector<int>& device_of_;
  int device_;
  std::int64_t microbatches_;  // that the argument is about
  Nanoseconds begin_ = 0;      // of their first forward
  int first_ = -1, last_ = -1;
  std::vector<StageCosts> mine_;
};

/// Whether a step below the bound leaves the device no way out: from the last stage on, the first (or the
/// last) input gradient comes as early as it can on each, and where its device would be idle too long it is
/// put off by whole forwards (or weight gradients).
bool in_turn_holds(const Certificate& certificate, const Problem& problem,
                   const std::vector<int>& device_of) {
  if (problem.stages() != problem.devices) return false;
  const bool before_last = certificate.argument == Argument::cool_downs;
  const auto& [stages, hops] = problem.costs;
  Nanoseconds begin = 0;
  for (auto s = stages.size(); s-- > 0;) {
    if (s < hops.size())
      begin += hops[s].latency + hops[s].occupancy + stages[s + 1].backward_input + hops[s].latency +
               hops[s].occupancy;
    begin += stages[s].forward;
    const Checker checker(problem, device_of, device_of[s]);
    begin = std::max(begin, checker.done_by(0, before_last));
    const std::int64_t most = checker.most_before(before_last);
    const Nanoseconds each = checker.done_by(1, before_last) - checker.done_by(0, before_last);
    std::int64_t count = std::min(most, (begin - checker.done_by(0, before_last)) / each);
    const Nanoseconds allowed = checker.idle_allowed(
        certificate.bound - 1, certificate.objective == Objective::makespan, before_last);
    const bool too_long = begin - checker.done_by(count, before_last) > allowed;
    if (device_of[s] == certificate.device) return too_long && (count == most || allowed < 0);
    if (too_long && count == most) return false;  // about another device
    if (too_long) begin = checker.done_by(++count, before_last);
  }
  return false;
}

}  // namespace

bool holds(const Certificate& certificate, const Problem& problem, const std::vector<int>& device_of) {
  if (certificate.device < 0 || certificate.device >= problem.devices || certificate.after < 0) return false;
  Checker checker(problem, device_of, certificate.device);
  if (certificate.argument != Argument::rounds && !checker.begin_after(certificate.after)) return false;
  switch (certificate.argument) {
    case Argument::load:
      return certificate.bound <= checker.load(certificate.objective == Objective::makespan);
    case Argument::stream:
      return certificate.bound <= checker.stream();
    case Argument::rounds:
      return certificate.after == 0 && certificate.bound <= checker.rounds();
    case Argument::warm_ups:
    case Argument::cool_downs:
      return certificate.after == 0 && in_turn_holds(certificate, problem, device_of);
  }
  return false;
}

const char* name(Argument argument) {
  static constexpr std::array names{"load", "stream", "rounds", "warm-ups", "cool-downs"};
  return names[static_cast<std::size_t>(argument)];
}

std::ostream& operator<<(std::ostream& out, const Certificate& certificate) {
  out << name(certificate.objective) << " >= " << certificate.bound << " ns: " << name(certificate.argument)
      << " of device " << certificate.device;
  if (certificate.after > 0)
    out << ", after " << certificate.after << (certificate.after == 1 ? " microbatch" : " microbatches");
  return out;
}

}  // namespace weft::pipeline
