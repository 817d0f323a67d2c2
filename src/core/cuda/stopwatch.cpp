#include "core/cuda/stopwatch.hpp"

#include <utility>

#include "weft/interop/cuda.hpp"

namespace weft::detail::cuda {

Stopwatch::~Stopwatch() {
  for (const NativeEvent event : free_) runtime_->destroy(event);
  for (const Span& span : spans_) {
    runtime_->destroy(span.begin);
    runtime_->destroy(span.end);
  }
  if (begun_ != nullptr) runtime_->destroy(begun_);
}

NativeEvent Stopwatch::take(Device device) {
  if (!runtime_) runtime_ = runtime();
  if (free_.empty()) return runtime_->make_event(device.index(), true);
  const NativeEvent event = free_.back();
  free_.pop_back();
  return event;
}

void Stopwatch::record(Stream& stream, NativeEvent event) const {
  stream.run([runtime = runtime_, event, native = native_handle(stream)] { runtime->record(event, native); });
}

void Stopwatch::start(Stream& stream) {
  const std::lock_guard lock(mutex_);
  collect();
  begun_ = take(stream.device());
  record(stream, begun_);
}

void Stopwatch::stop(Stream& stream) {
  const std::lock_guard lock(mutex_);
  const NativeEvent end = take(stream.device());
  record(stream, end);
  spans_.push_back({std::exchange(begun_, nullptr), end});
}

void Stopwatch::collect() {
  while (!spans_.empty() && runtime_->passed(spans_.front().end)) {
    const Span span = spans_.front();
    spans_.pop_front();
    free_.push_back(span.begin);
    free_.push_back(span.end);
    seconds_ += runtime_->seconds_between(span.begin, span.end);
  }
}

double Stopwatch::seconds() {
  const std::lock_guard lock(mutex_);
  collect();
  return seconds_;
}

}  // namespace weft::detail::cuda
