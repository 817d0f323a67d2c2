#include "core/cuda/stopwatch.hpp"

namespace weft::detail::cuda {

void Stopwatch::start(Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (!marks_) marks_ = std::make_shared<TimedMarks>(stream.device().index());
  collect();
  begun_ = marks_->take(stream);
}

void Stopwatch::stop(Stream& stream) {
  const std::lock_guard lock(mutex_);
  spans_.push_back({begun_, marks_->take(stream)});
}

void Stopwatch::collect() {
  while (!spans_.empty() && marks_->passed(spans_.front().end)) {
    const Span span = spans_.front();
    spans_.pop_front();
    seconds_ += marks_->seconds_between(span.begin, span.end);
    marks_->give_back(span.begin);
    marks_->give_back(span.end);
  }
}

double Stopwatch::seconds() {
  const std::lock_guard lock(mutex_);
  collect();
  return seconds_;
}

}  // namespace weft::detail::cuda
