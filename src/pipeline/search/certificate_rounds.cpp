#include "pipeline/search/certificate_rounds.hpp"

#include <algorithm>
#include <limits>

namespace weft::pipeline::detail {
namespace {

using Count = std::int64_t;

class Recounter {
 public:
  Recounter(const Problem& problem, int stage, Bytes limit)
      : m_(problem.microbatches), k_(limit / problem.costs.stages[at(stage)].activation), limit_(limit) {
    const auto& stages = problem.costs.stages;
    mine_ = stages[at(stage)];
    end_ = stages.back();
    for (int to = stage; to < problem.stages(); ++to) {
      Nanoseconds there = 0, back = 0;
      for (int s = stage; s < to; ++s) {
        const Nanoseconds wire = problem.costs.hops[at(s)].delay();
        there += stages[at(s)].forward + wire;
        back += wire + stages[at(s)].backward_input;
      }
      there_.push_back(there);
      back_.push_back(back);
      at_.push_back(stages[at(to)].forward + stages[at(to)].backward_input);
    }
  }

  Recount run() {
    for (Count h = 0; h < k_; ++h) to_forward_.push_back(to_forward(h));
    for (Count n = 0; n < m_; ++n) {
      f_.push_back(n == 0 ? 0 : f_.back() + mine_.forward);
      if (n >= k_) f_.back() = std::max(f_.back(), when_there_is_room(n));
      if (n > k_) crossed_where_room_is(n);
      if (n >= 2 * k_) crossed_two_rounds(n);
      // All from some forward on go through the last device.
      since_ = std::max(since_, f_.back() - n * at_.back());
      Nanoseconds b = since_ + (n + 1) * at_.back() + there_.back() + back_.back();
      if (n > 0) b = std::max(b, b_.back() + end_.backward_input);
      b_.push_back(b);
      if (n >= k_) crossed_one_round(n);
    }
    return {f_, b_};
  }

 private:
  static std::size_t at(Count index) { return static_cast<std::size_t>(index); }

  /// Weight gradients before the forward of n, if before it `inputs` input gradients are through.
  Count weights_before(Count n, Count inputs) const {
    const Bytes missing =
        (n + 1) * mine_.activation - limit_ - inputs * (mine_.activation - mine_.kept_for_weight);
    if (missing <= 0) return 0;
    return (missing + mine_.kept_for_weight - 1) / mine_.kept_for_weight;
  }

  Nanoseconds when_there_is_room(Count n) {
    const Count i = n - k_;  // whose input gradient must be through
    after_pairs_ = std::max(after_pairs_, b_[at(i)] - i * (mine_.forward + mine_.backward_input));
    after_all_ = std::max(after_all_, b_[at(i)] - i * mine_.total());
    const Nanoseconds pairs = after_pairs_ + i * (mine_.forward + mine_.backward_input);
    Nanoseconds best = std::numeric_limits<Nanoseconds>::max();
    for (Count through = i; through < n; ++through) {
      if (b_[at(through)] >= best) break;
      const Nanoseconds inputs = (through - i) * mine_.backward_input;
      Nanoseconds begin = std::max(b_[at(through)], pairs + inputs);
      if (const Count weights = weights_before(n, through + 1); weights > 0)
        begin = std::max(begin, after_all_ + i * (mine_.forward + mine_.backward_input) + inputs +
                                    weights * mine_.backward_weight);
      best = std::min(best, begin);
    }
    return best;
  }

  /// From the end of an input gradient to the forward k + h later, whichever input and weight gradients make
  /// room for it.
  Nanoseconds to_forward(Count h) const {
    Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
    for (Count more = 0; more < k_; ++more) {
      const Bytes room = limit_ - k_ * mine_.activation + more * (mine_.activation - mine_.kept_for_weight);
      const Count weights =
          room >= (h + 1) * mine_.kept_for_weight ? 0 : h + 1 - room / mine_.kept_for_weight;
      least = std::min(
          least, h * mine_.forward + (h + more) * mine_.backward_input + weights * mine_.backward_weight);
      if (weights == 0) break;
    }
    return least;
  }

  /// On some device beyond either forward j is first, and gradient i (end of it here: `from`) is as late as j
  /// is there and back; or gradient i, and j goes on from there. The best such device lies the farther, the
  /// later `from` is.
  template <class Before, class After>
  Nanoseconds best_crossing(const Before& before, const After& after) const {
    Nanoseconds best = 0;
    std::size_t device = 0;
    for (Count h = 1; h < k_; ++h) {
      const auto value = [&](std::size_t d) {
        const Nanoseconds j_first = before(h) + there_[d] + at_[d] + back_[d];
        const Nanoseconds i_first =
            after(h) + there_.back() + at_.back() + back_.back() - there_[d] - back_[d];
        return std::pair(j_first, i_first);
      };
      while (device + 1 < at_.size() && value(device).first < value(device).second) ++device;
      for (const std::size_t d : {device, device - (device > 0 ? 1 : 0)})
        best = std::max(best, std::min(value(d).first, value(d).second));
    }
    return best;
  }

  Nanoseconds round_trip() const { return there_.back() + at_.back() + back_.back(); }

  /// The forward j that must be back for n to have room, and gradients h before it.
  void crossed_where_room_is(Count n) {
    const Count j = n - k_;
    for (Count h = 1; h <= std::min(k_ - 1, j); ++h) {
      const auto value = [&](std::size_t d) {
        return std::pair(f_[at(j)] + there_[d] + at_[d] + back_[d] + to_forward_[at(h)],
                         b_[at(j - h)] + round_trip() - there_[d] - back_[d] + to_forward_[0]);
      };
      // The farther away, the later the first and the earlier the second.
      std::size_t near = 0, far = at_.size();
      while (far - near > 1) {
        const std::size_t d = near + (far - near) / 2;
        (value(d).first <= value(d).second ? near : far) = d;
      }
      for (const std::size_t d : {near, std::min(near + 1, at_.size() - 1)})
        f_.back() = std::max(f_.back(), std::min(value(d).first, value(d).second));
    }
  }

  void crossed_two_rounds(Count n) {
    const Nanoseconds bound = best_crossing(
        [&](Count h) { return f_[at(n - k_ - h)] + to_forward_[0] + round_trip() + to_forward_[0]; },
        [&](Count h) { return b_[at(n - 2 * k_)] + to_forward_[at(h)]; });
    f_.back() = std::max(f_.back(), bound);
  }
  void crossed_one_round(Count n) {
    const Nanoseconds bound =
        best_crossing([&](Count h) { return f_[at(n - h)] + to_forward_[0] + round_trip(); },
                      [&](Count h) { return b_[at(n - k_)] + h * at_.back(); });
    b_.back() = std::max(b_.back(), bound);
  }

  Count m_, k_;
  Bytes limit_;
  StageCosts mine_, end_;
  // By device: the way to it from here, the way from it, and forward and input gradient on it.
  std::vector<Nanoseconds> there_, back_, at_;
  std::vector<Nanoseconds> f_, b_, to_forward_;
  Nanoseconds since_ = 0;
  Nanoseconds after_pairs_ = std::numeric_limits<Nanoseconds>::min() / 2, after_all_ = after_pairs_;
};

}  // namespace

Recount recount(const Problem& problem, int stage, Bytes limit) {
  const Bytes each = problem.costs.stages[static_cast<std::size_t>(stage)].activation;
  if (each == 0 || limit < each || limit / each >= problem.microbatches) return {};
  return Recounter(problem, stage, limit).run();
}

}  // namespace weft::pipeline::detail
