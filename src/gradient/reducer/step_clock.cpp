// Records the times of a step on this rank, and accounts for them once ranks have shared theirs.
//
// StepClock keeps a ring of the last 128 steps; streams' tasks write their times into a step that the ring
// may have moved on from. account() sets all ranks' times on one clock, gathers 8 (4 + 5 B) bytes per step of
// B buckets, and every rank then evaluates account_of() for its own steps:
//   - a bucket's link is busy from when the last rank's wire takes it up (and, in order, from the end of the
//     bucket before) to its end; the union of these intervals is link_seconds. On an inline wire it is busy only
//     where the compute stream's thread carries it or waits in them;
//   - the union of the intervals in which the compute stream waited is exposed_seconds, plus what it carried
//     itself;
//   - overlap is the part of the first union that is not in the second.

#include "gradient/reducer/step_clock.hpp"

#include <algorithm>
#include <limits>

#include "weft/collectives/clock.hpp"

namespace weft {
namespace {

struct Interval {
  double begin;
  double end;
  double length() const { return std::max(0.0, end - begin); }
};

/// The union of intervals, as intervals that do not touch, rising.
std::vector<Interval> united(std::vector<Interval> all) {
  std::erase_if(all, [](const Interval& one) { return one.end <= one.begin; });
  std::ranges::sort(all, {}, &Interval::begin);
  std::vector<Interval> result;
  for (const Interval& one : all) {
    if (result.empty() || one.begin > result.back().end) {
      result.push_back(one);
    } else {
      result.back().end = std::max(result.back().end, one.end);
    }
  }
  return result;
}

double total(const std::vector<Interval>& all) {
  double sum = 0;
  for (const Interval& one : all) sum += one.length();
  return sum;
}

/// Seconds in both unions.
double common(const std::vector<Interval>& some, const std::vector<Interval>& others) {
  double sum = 0;
  for (const Interval& a : some) {
    for (const Interval& b : others)
      sum += Interval{std::max(a.begin, b.begin), std::min(a.end, b.end)}.length();
  }
  return sum;
}

/// The rank whose gradients of the bucket were ready last.
std::size_t last_to_bring(std::span<const StepSeen> ranks, std::size_t bucket) {
  const auto ready = [bucket](const StepSeen& one) { return one.buckets[bucket].ready; };
  return static_cast<std::size_t>(std::ranges::max_element(ranks, {}, ready) - ranks.begin());
}

struct Arrival {
  double skew = 0;  // of the last rank behind the first
  double late = 0;  // of `rank` behind all others
};
Arrival arrival_of(std::size_t rank, std::span<const StepSeen> ranks, std::size_t bucket) {
  const double own = ranks[rank].buckets[bucket].ready;
  double first = own;
  double last_of_others = -std::numeric_limits<double>::infinity();
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    if (other == rank) continue;
    const double ready = ranks[other].buckets[bucket].ready;
    first = std::min(first, ready);
    last_of_others = std::max(last_of_others, ready);
  }
  if (ranks.size() == 1) return {};
  return {.skew = std::max(own, last_of_others) - first, .late = std::max(0.0, own - last_of_others)};
}

}  // namespace

StepAccount account_of(int rank, std::span<const StepSeen> ranks, bool in_order) {
  const StepSeen& own = ranks[static_cast<std::size_t>(rank)];
  std::vector<Interval> busy;
  std::vector<Interval> waits;
  std::vector<double> waited_for(ranks.size());
  double before_ended = own.begin;
  double end = own.begin;
  for (std::size_t i = 0; i < own.buckets.size(); ++i) {
    const BucketSeen& bucket = own.buckets[i];
    const std::size_t last = last_to_bring(ranks, i);
    const double brought = ranks[last].buckets[i].ready;
    double moves = brought;
    for (const StepSeen& one : ranks) moves = std::max(moves, one.buckets[i].begun);
    busy.push_back({in_order ? std::max(moves, before_ended) : moves, bucket.ended});
    waits.push_back({bucket.wait_begin, bucket.wait_end});
    if (last != static_cast<std::size_t>(rank))
      waited_for[last] += Interval{bucket.wait_begin, std::min(brought, bucket.wait_end)}.length();
    before_ended = bucket.ended;
    end = std::max(end, bucket.wait_end);
  }
  busy = united(std::move(busy));
  waits = united(std::move(waits));
  StepAccount account{.step = own.step, .seconds = end - own.begin};
  for (std::size_t i = 0; i < own.buckets.size(); ++i) {
    const Arrival arrival = arrival_of(static_cast<std::size_t>(rank), ranks, i);
    account.skew_seconds = std::max(account.skew_seconds, arrival.skew);
    account.late_seconds = std::max(account.late_seconds, arrival.late);
  }
  account.exposed_seconds = total(waits) + own.carried;
  const double waited = common(busy, waits);
  account.link_seconds = own.is_inline ? std::min(total(busy), own.carried + waited) : total(busy);
  account.overlap_seconds = own.is_inline ? 0 : account.link_seconds - waited;
  for (std::size_t other = 0; other < waited_for.size(); ++other) {
    account.slowest_seconds += waited_for[other];
    if (waited_for[other] > 0 &&
        (!account.slowest || waited_for[other] > waited_for[static_cast<std::size_t>(*account.slowest)]))
      account.slowest = static_cast<int>(other);
  }
  return account;
}

}  // namespace weft

namespace weft::detail {
namespace {

// A step as ranks send it: number, begin, carried, whether inline, and five times for each bucket.
constexpr std::size_t head_words = 4;
constexpr std::size_t bucket_words = 5;

class Words {
 public:
  Words(const StepClock& clock, std::size_t buckets, std::chrono::nanoseconds offset,
        StepClock::Clock::time_point since, bool is_inline)
      : buckets_(buckets), offset_(offset), since_(since), is_inline_(is_inline) {
    for (std::size_t back = clock.kept(); back > 0; --back) add(clock.before(back - 1));
  }
  const std::vector<double>& all() const { return words_; }

 private:
  double seconds(StepClock::Clock::time_point at) const {
    return std::chrono::duration<double>(at + offset_ - since_).count();
  }
  void add(const StepClock::Step& step) {
    words_.push_back(static_cast<double>(step.number));
    words_.push_back(seconds(step.begin));
    words_.push_back(static_cast<double>(step.carried_nanoseconds.load()) * 1e-9);
    words_.push_back(is_inline_ ? 1 : 0);
    for (std::size_t i = 0; i < buckets_; ++i) {
      const StepClock::Bucket& bucket = step.buckets[i];
      for (const auto at : {bucket.ready, bucket.ended, bucket.wait_begin, bucket.wait_end, bucket.begun})
        words_.push_back(seconds(at));
    }
  }

  std::size_t buckets_;
  std::chrono::nanoseconds offset_;
  StepClock::Clock::time_point since_;
  bool is_inline_;
  std::vector<double> words_;
};

StepSeen read(const double* words, std::size_t buckets) {
  StepSeen times{.step = static_cast<std::uint64_t>(words[0]),
                 .begin = words[1],
                 .carried = words[2],
                 .is_inline = words[3] != 0};
  const double* at = words + head_words;
  for (std::size_t i = 0; i < buckets; ++i, at += bucket_words)
    times.buckets.push_back({at[0], at[1], at[2], at[3], at[4]});
  return times;
}

}  // namespace

void StepClock::adopt(std::size_t buckets) {
  buckets_ = buckets;
  fresh_ = 0;
  for (auto& place : steps_) {
    if (!place || place.use_count() > 1) place = make_recycled<Step>();
    place->buckets.reserve(buckets);
  }
}

void StepClock::begin_step(std::uint64_t number) {
  auto& place = steps_[++begun_ % steps_.size()];
  if (place.use_count() > 1) place = make_recycled<Step>();
  ++fresh_;
  place->number = number;
  place->begin = Clock::now();
  place->carried_nanoseconds = 0;
  place->buckets.assign(buckets_, {});
}

std::shared_ptr<StepClock::Step> StepClock::unaccounted() const {
  auto step = make_recycled<Step>();
  step->buckets.resize(buckets_);
  return step;
}

std::optional<StepClock::Clock::duration> StepClock::median_step() const {
  constexpr std::size_t least = 8;
  if (begun_ < least) return std::nullopt;
  RecycledVector<Clock::duration> steps;
  for (std::size_t back = 0; back + 1 < std::min(begun_, steps_.size()); ++back)
    steps.push_back(before(back).begin - before(back + 1).begin);
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::ranges::nth_element(steps, middle);
  return *middle;
}

StepHistory account(StepClock& clock, const Communicator& comm, bool in_order, bool is_inline) {
  StepHistory history{.in_order = in_order};
  if (clock.kept() == 0) return history;
  Communicator all = comm;
  const std::size_t buckets = clock.step()->buckets.size();
  const auto offset = clock_offset(comm);
  // Times are sent as doubles, which hold nanoseconds only when they count from a moment close by: rank 0's
  // oldest step.
  std::int64_t since =
      std::chrono::nanoseconds(clock.before(clock.kept() - 1).begin.time_since_epoch()).count();
  Stream stream;
  all.broadcast(View(std::span(&since, 1)), 0, stream).wait();
  const Words own(clock, buckets, offset, StepClock::Clock::time_point(std::chrono::nanoseconds(since)),
                  is_inline);
  std::vector<double> words(own.all().size() * static_cast<std::size_t>(comm.size()));
  all.all_gather(ConstView(std::span(own.all())), View(std::span(words)), stream).wait();

  const std::size_t length = head_words + bucket_words * buckets;
  for (std::size_t step = 0; step < clock.kept(); ++step) {
    history.last.clear();
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(comm.size()); ++rank)
      history.last.push_back(read(words.data() + rank * own.all().size() + step * length, buckets));
    history.steps.push_back(account_of(comm.rank(), history.last, in_order));
  }
  clock.forget();
  return history;
}

}  // namespace weft::detail
