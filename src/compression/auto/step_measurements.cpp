#include "compression/auto/step_measurements.hpp"

#include <algorithm>
#include <iterator>

#include "compression/auto/step_forecast.hpp"

namespace weft::detail {
namespace {

// The step time, whether coding runs in backward's thread, and four speeds of coding.
constexpr std::size_t single_numbers = 6;

double seconds_between(BucketTimes::Clock::time_point begin, BucketTimes::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

BucketTimes::BucketTimes(std::size_t buckets, Device device)
    : buckets_(buckets), ready_seconds_(buckets), took_(buckets) {
  if (!device.is_host()) device_clock_.emplace(device.index());
}

void BucketTimes::note(Stream stream, Clock::time_point& to) {
  const std::shared_ptr<Clock::time_point> kept(times_, &to);
  if (device_clock_) return device_clock_->note(std::move(stream), kept);
  stream.run([kept] { *kept = Clock::now(); });
}

void BucketTimes::ready(std::size_t bucket, Stream compute, Stream wire) {
  note(compute, (*times_)[bucket].ready);
  wire.wait(compute.record());
  note(wire, (*times_)[bucket].begun);
}

void BucketTimes::arrived(std::size_t bucket, Stream wire) {
  note(std::move(wire), (*times_)[bucket].arrived);
}

void BucketTimes::end_step(bool counts, Deadline deadline) {
  if (device_clock_) device_clock_->finish(deadline);
  if (!counts) {
    before_.reset();
    return;
  }
  const Clock::time_point first = times_->front().ready;
  // The first step has no previous one, and is not counted: caches are cold.
  if (before_) {
    spans_.push_back(seconds_between(*before_, first));
    for (std::size_t bucket = 0; bucket < buckets_; ++bucket) {
      const auto& [ready, begun, arrived] = (*times_)[bucket];
      ready_seconds_[bucket].push_back(std::max(0.0, seconds_between(first, ready)));
      took_[bucket].push_back(seconds_between(begun, arrived));
    }
  }
  before_ = first;
}

std::vector<double> BucketTimes::ready_seconds() const {
  std::vector<double> medians;
  std::ranges::transform(ready_seconds_, std::back_inserter(medians), median);
  return medians;
}

std::vector<double> BucketTimes::took_seconds() const {
  std::vector<double> medians;
  std::ranges::transform(took_, std::back_inserter(medians), median);
  return medians;
}

double BucketTimes::step_seconds() const {
  return median(spans_);
}

std::int64_t numbers_of(std::size_t buckets, std::size_t link_samples) {
  return static_cast<std::int64_t>(single_numbers + 2 * buckets + link_samples);
}

std::vector<double> to_numbers(const StepMeasurements& mine) {
  const StepProfile& profile = mine.profile;
  const auto& [bf16, matrix, factor, copying] = profile.coding;
  std::vector<double> numbers{
      profile.step_seconds, profile.beside ? 0.0 : 1.0, bf16, matrix, factor, copying};
  numbers.insert(numbers.end(), profile.ready_seconds.begin(), profile.ready_seconds.end());
  for (const double took : mine.took_seconds) numbers.push_back(-took);
  for (const auto& [bytes, seconds] : mine.link) numbers.push_back(seconds);
  return numbers;
}

StepProfile from_numbers(std::span<const double> numbers, const StepMeasurements& mine,
                         const BucketPlan& plan) {
  StepProfile profile;
  profile.step_seconds = numbers[0];
  profile.beside = numbers[1] == 0;
  profile.coding = {numbers[2], numbers[3], numbers[4], numbers[5]};
  profile.sharded = mine.profile.sharded;
  const std::size_t buckets = plan.buckets().size();
  const auto ready = numbers.subspan(single_numbers, buckets);
  profile.ready_seconds.assign(ready.begin(), ready.end());
  std::vector<LinkModel::Sample> link = mine.link;
  for (std::size_t i = 0; i < link.size(); ++i) link[i].seconds = numbers[single_numbers + 2 * buckets + i];
  profile.link = LinkModel::fit(link);
  // Without a thread of its own, a bucket that has begun waits until the computing thread progresses it: its
  // time says nothing about the wire.
  if (!profile.beside) return profile;
  double took = 0;
  for (const double negative : numbers.subspan(single_numbers + buckets, buckets)) took -= negative;
  profile.slowdown = std::max(1.0, took / StepForecast(plan, profile, 1).wire_seconds());
  return profile;
}

}  // namespace weft::detail
