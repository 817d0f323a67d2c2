#include "gradient/step_clock.hpp"

#include <algorithm>

#include "weft/collectives/clock.hpp"

namespace weft::detail {
namespace {

// A step as it travels: number, begin, carried, and four times a bucket.
constexpr std::size_t words_before = 3;
constexpr std::size_t words_a_bucket = 4;

class Words {
 public:
  Words(const StepClock& clock, std::size_t buckets, std::chrono::nanoseconds offset,
        StepClock::Clock::time_point since)
      : buckets_(buckets), offset_(offset), since_(since) {
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
    for (std::size_t i = 0; i < buckets_; ++i) {
      const StepClock::Bucket& bucket = step.buckets[i];
      for (const auto at : {bucket.ready, bucket.ended, bucket.wait_begin, bucket.wait_end})
        words_.push_back(seconds(at));
    }
  }

  std::size_t buckets_;
  std::chrono::nanoseconds offset_;
  StepClock::Clock::time_point since_;
  std::vector<double> words_;
};

StepSeen read(const double* words, std::size_t buckets) {
  StepSeen times{
      .step = static_cast<std::uint64_t>(words[0]), .begin = words[1], .carried = words[2], .buckets = {}};
  const double* at = words + words_before;
  for (std::size_t i = 0; i < buckets; ++i, at += words_a_bucket)
    times.buckets.push_back({at[0], at[1], at[2], at[3]});
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

std::shared_ptr<StepClock::Step> StepClock::aside() const {
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

StepHistory account(StepClock& clock, const Communicator& comm, bool in_order) {
  StepHistory history{.in_order = in_order};
  if (clock.kept() == 0) return history;
  Communicator all = comm;
  const std::size_t buckets = clock.step()->buckets.size();
  const auto offset = clock_offset(comm);
  // Doubles hold microseconds since a machine's start to the nanosecond only when they count from near by.
  std::int64_t since =
      std::chrono::nanoseconds(clock.before(clock.kept() - 1).begin.time_since_epoch()).count();
  Stream stream;
  all.broadcast(View(std::span(&since, 1)), 0, stream).wait();
  const Words own(clock, buckets, offset, StepClock::Clock::time_point(std::chrono::nanoseconds(since)));
  std::vector<double> words(own.all().size() * static_cast<std::size_t>(comm.size()));
  all.all_gather(ConstView(std::span(own.all())), View(std::span(words)), stream).wait();

  const std::size_t length = words_before + words_a_bucket * buckets;
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
