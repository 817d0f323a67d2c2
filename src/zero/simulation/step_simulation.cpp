#include "zero/simulation/step_simulation.hpp"

#include <algorithm>
#include <limits>

#include "gradient/bucket_ring/ring_places.hpp"
#include "zero/params/gather_buffers.hpp"
#include "zero/simulation/simulated_link.hpp"

namespace weft::detail {
namespace {

using Link = SimulatedLink;
constexpr double never = std::numeric_limits<double>::infinity();

/// Replays one rank's tapes.
class Trainer {
 public:
  Trainer(int rank, const ParamsPlan& plan, const std::vector<StepTape>& tapes, const WireSeconds& wire,
          Link& link)
      : rank_(rank),
        plan_(plan),
        buckets_(plan.shards()->plan().buckets()),
        ring_(plan.shards()->plan(), plan.gradients()),
        tapes_(tapes),
        wire_(wire),
        link_(link),
        buffers_(plan.gather_buffers()),
        arrived_(plan.units().size()),
        reduced_(buckets_.size()) {
    begin_step();
  }

  /// Proceeds as far as it can by `now`.
  void advance(double now) {
    for (;;) {
      if (now < busy_until_ || step_ == tapes_.size()) return;
      if (std::ranges::any_of(awaited_, [&](const Link::Transfer& one) { return !link_.done(one); })) return;
      if (lost_ != nullptr) *lost_ += now - waits_since_;
      lost_ = nullptr;
      awaited_.clear();
      proceed(now);
    }
  }
  /// When its present computation ends; never if it waits or has ended.
  double busy_until(double now) const { return now < busy_until_ ? busy_until_ : never; }
  const std::vector<double>& ends() const { return ends_; }

  double for_units = 0;
  double for_places = 0;
  double for_means = 0;

 private:
  const StepTape& tape() const { return tapes_[step_]; }
  void begin_step() {
    position_ = 0;
    computed_ = false;
    updated_ = 0;
    next_bucket_ = 0;
    marked_.assign(buckets_.size(), 0);
  }

  void proceed(double now) {
    if (position_ < tape().entries.size()) {
      const StepTape::Entry& entry = tape().entries[position_];
      if (compute(now, entry.seconds)) return;
      ++position_;
      computed_ = false;
      call(entry, now);
    } else if (position_ == tape().entries.size()) {
      if (compute(now, tape().rest_seconds)) return;
      ++position_;
    } else {
      update(now);
    }
  }
  /// Starts the computation before the next call; false if that is over already.
  bool compute(double now, double seconds) {
    if (computed_) return false;
    computed_ = true;
    busy_until_ = now + seconds;
    return true;
  }
  void wait(const std::vector<Link::Transfer>& transfers, double now, double& lost) {
    awaited_ = transfers;
    waits_since_ = now;
    lost_ = &lost;
  }

  void call(const StepTape::Entry& entry, double now) {
    switch (entry.call) {
      case StepTape::Call::use:
        return use(entry.of, now);
      case StepTape::Call::done:
        buffers_.release(entry.of);
        return prefetch();
      case StepTape::Call::place:
        return place(ParamId{entry.of}, now);
      case StepTape::Call::ready:
        return ready(ParamId{entry.of});
    }
  }
  void use(int unit, double now) {
    const auto& one = plan_.units()[static_cast<std::size_t>(unit)];
    if (!one.whole_at) {
      const auto held = buffers_.hold(unit);
      if (!held)
        throw Error(ErrorKind::usage, text("unit ", unit, " is used while all gather buffers are held"));
      if (!held->is_gathered) fetch(unit);
      prefetch();
    }
    wait(arrived_[static_cast<std::size_t>(unit)], now, for_units);
  }
  void place(ParamId id, double now) {
    std::vector<Link::Transfer> before;
    for (const std::size_t other : ring_.after(bucket_of(id))) {
      if (other >= next_bucket_)
        throw Error(ErrorKind::usage, text("bucket ", other, " is not ready when its place is another's"));
      before.push_back(reduced_[other]);
    }
    wait(before, now, for_places);
  }
  void ready(ParamId id) {
    ++marked_[bucket_of(id)];
    while (next_bucket_ < buckets_.size() && marked_[next_bucket_] == buckets_[next_bucket_].params.size()) {
      reduced_[next_bucket_] = link_.post(rank_, Link::reductions, wire_.reduce[next_bucket_]);
      ++next_bucket_;
    }
  }
  // Updates bucket by bucket as they are averaged; then the step ends.
  void update(double now) {
    if (updated_ == 0 && next_bucket_ != buckets_.size())
      throw Error(ErrorKind::usage, text("a step ends before bucket ", next_bucket_, " is ready"));
    if (updated_ == buckets_.size()) return end_step(now);
    if (!link_.done(reduced_[updated_])) return wait({reduced_[updated_]}, now, for_means);
    const double elements = static_cast<double>(plan_.shards()->plan().end());
    busy_until_ = now + tape().update_seconds * static_cast<double>(buckets_[updated_].count()) / elements;
    ++updated_;
  }
  void end_step(double now) {
    buffers_.invalidate();
    for (std::size_t unit = 0; unit < arrived_.size(); ++unit) {
      if (plan_.units()[unit].whole_at) fetch(static_cast<int>(unit));
    }
    prefetch();
    ends_.push_back(now);
    if (++step_ < tapes_.size()) begin_step();
  }

  void fetch(int unit) {
    auto& arrived = arrived_[static_cast<std::size_t>(unit)];
    arrived.clear();
    for (const std::size_t bucket : plan_.units()[static_cast<std::size_t>(unit)].buckets)
      arrived.push_back(link_.post(rank_, Link::gathers, wire_.gather[bucket]));
  }
  void prefetch() {
    while (const auto next = buffers_.next_prefetch()) fetch(next->unit);
  }
  std::size_t bucket_of(ParamId id) const {
    const auto found = std::ranges::find_if(buckets_, [&](const Bucket& bucket) {
      return std::ranges::find(bucket.params, id) != bucket.params.end();
    });
    return static_cast<std::size_t>(found - buckets_.begin());
  }

  int rank_;
  const ParamsPlan& plan_;
  const std::vector<Bucket>& buckets_;
  RingPlaces ring_;
  const std::vector<StepTape>& tapes_;
  const WireSeconds& wire_;
  Link& link_;
  GatherBuffers buffers_;
  std::vector<std::vector<Link::Transfer>> arrived_;  // by unit
  std::vector<Link::Transfer> reduced_;               // by bucket
  std::vector<std::size_t> marked_;                   // by bucket
  std::size_t next_bucket_ = 0;                       // to be reduced
  std::size_t step_ = 0;
  std::size_t position_ = 0;  // in the tape
  std::size_t updated_ = 0;   // buckets
  bool computed_ = false;     // what comes before the next call
  double busy_until_ = 0;
  std::vector<Link::Transfer> awaited_;
  double waits_since_ = 0;
  double* lost_ = nullptr;
  std::vector<double> ends_;
};

void expect_usable(const ParamsPlan& plan, const std::vector<std::vector<StepTape>>& tapes,
                   const WireSeconds& wire) {
  if (!plan.shards() || plan.gather_buffers() == 0)
    throw Error(ErrorKind::usage, "a simulated step of parameters that are whole everywhere",
                "it is of stage 3");
  const std::size_t buckets = plan.shards()->plan().buckets().size();
  if (wire.gather.size() != buckets || wire.reduce.size() != buckets)
    throw Error(ErrorKind::usage, text("seconds of ", wire.gather.size(), " gathers and ", wire.reduce.size(),
                                       " reductions of ", buckets, " buckets"));
  for (const auto& steps : tapes) {
    if (steps.size() != tapes.front().size())
      throw Error(ErrorKind::usage,
                  text("ranks of ", tapes.front().size(), " and of ", steps.size(), " steps"));
  }
}

}  // namespace

SimulatedSteps simulate_steps(const ParamsPlan& plan, const std::vector<std::vector<StepTape>>& tapes,
                              const WireSeconds& wire) {
  expect_usable(plan, tapes, wire);
  Link link(static_cast<int>(tapes.size()));
  std::vector<Trainer> trainers;
  trainers.reserve(tapes.size());
  for (std::size_t rank = 0; rank < tapes.size(); ++rank)
    trainers.emplace_back(static_cast<int>(rank), plan, tapes[rank], wire, link);
  for (double now = 0;;) {
    for (Trainer& trainer : trainers) trainer.advance(now);
    double next = link.next();
    for (const Trainer& trainer : trainers) next = std::min(next, trainer.busy_until(now));
    if (next == never) break;
    link.advance(next);
    now = next;
  }
  SimulatedSteps result;
  for (const Trainer& trainer : trainers) {
    if (trainer.ends().size() != tapes.front().size())
      throw Error(ErrorKind::usage, "a rank waits for what another does not send: their calls differ");
    result.ends.resize(trainer.ends().size());
    std::ranges::transform(result.ends, trainer.ends(), result.ends.begin(),
                           [](double a, double b) { return std::max(a, b); });
    const auto ranks = static_cast<double>(tapes.size());
    result.for_units += trainer.for_units / ranks;
    result.for_places += trainer.for_places / ranks;
    result.for_means += trainer.for_means / ranks;
  }
  return result;
}

}  // namespace weft::detail
