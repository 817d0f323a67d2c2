#include "core/cuda/timing.hpp"

#include "weft/interop/cuda.hpp"

namespace weft::detail::cuda {

TimedMarks::~TimedMarks() {
  for (const NativeEvent event : all_) runtime_->destroy(event);
}

TimedMarks::Mark TimedMarks::take(Stream& stream) {
  if (free_.empty()) {
    all_.reserve(all_.size() + 1);
    all_.push_back(runtime_->make_event(device_, true));
    free_.push_back(all_.back());
  }
  const Mark mark{free_.back(), make_recycled<std::atomic<bool>>(false)};
  free_.pop_back();
  stream.run([self = shared_from_this(), mark, native = native_handle(stream)] {
    self->runtime_->record(mark.event, native);
    *mark.recorded = true;
  });
  return mark;
}

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
