#include "compression/ready_times.hpp"

#include <algorithm>
#include <iterator>

namespace weft::detail {
namespace {

double seconds_between(ReadyTimes::Clock::time_point begin, ReadyTimes::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void ReadyTimes::ready(std::size_t bucket, Stream compute, Stream wire) {
  compute.run([times = times_, bucket] { (*times)[bucket].ready = Clock::now(); });
  wire.wait(compute.record());
  wire.run([times = times_, bucket] { (*times)[bucket].begun = Clock::now(); });
}

void ReadyTimes::arrived(std::size_t bucket, Stream wire) {
  wire.run([times = times_, bucket] { (*times)[bucket].arrived = Clock::now(); });
}

void ReadyTimes::end_step(bool counts) {
  if (!counts) {
    before_.reset();
    return;
  }
  const Clock::time_point first = times_->front().ready;
  // The first step has none before it, and does not count: nothing is warm then.
  if (before_) {
    spans_.push_back(seconds_between(*before_, first));
    for (std::size_t bucket = 0; bucket < buckets_; ++bucket) {
      const auto& [ready, begun, arrived] = (*times_)[bucket];
      seconds_[bucket].push_back(std::max(0.0, seconds_between(first, ready)));
      took_[bucket].push_back(seconds_between(begun, arrived));
    }
  }
  before_ = first;
}

std::vector<double> ReadyTimes::seconds() const {
  std::vector<double> medians;
  std::ranges::transform(seconds_, std::back_inserter(medians), median);
  return medians;
}

std::vector<double> ReadyTimes::took_seconds() const {
  std::vector<double> medians;
  std::ranges::transform(took_, std::back_inserter(medians), median);
  return medians;
}

double ReadyTimes::step_seconds() const {
  return median(spans_);
}

}  // namespace weft::detail
