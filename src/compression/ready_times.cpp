#include "compression/ready_times.hpp"

#include <algorithm>

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

void ReadyTimes::note(std::size_t bucket, Stream compute, Stream wire) {
  compute.run([ready = ready_, bucket] { (*ready)[bucket] = Clock::now(); });
  wire.wait(compute.record());
}

void ReadyTimes::end_step(bool counts) {
  if (!counts) {
    before_.reset();
    return;
  }
  const Clock::time_point first = ready_->front();
  // The first step has none before it, and does not count: nothing is warm then.
  if (before_) {
    spans_.push_back(seconds_between(*before_, first));
    std::vector<double>& all = seconds_.emplace_back();
    for (const Clock::time_point ready : *ready_) all.push_back(std::max(0.0, seconds_between(first, ready)));
  }
  before_ = first;
}

std::vector<double> ReadyTimes::seconds() const {
  std::vector<double> medians;
  for (std::size_t bucket = 0; bucket < buckets_; ++bucket) {
    std::vector<double> of_steps;
    for (const auto& step : seconds_) of_steps.push_back(step[bucket]);
    medians.push_back(median(std::move(of_steps)));
  }
  return medians;
}

double ReadyTimes::step_seconds() const {
  return median(spans_);
}

}  // namespace weft::detail
