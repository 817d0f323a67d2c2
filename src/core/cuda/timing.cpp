#include "core/cuda/timing.hpp"

#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"
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

// The mark passed between two looks at the host's clock, of which the nearest pair of a few is taken: a thread may be held up between them.
void TimedMarks::set_base() {
  constexpr int tries = 8;
  Stream first{Device::cuda(device_)};
  auto nearest = HostClock::duration::max();
  for (int i = 0; i < tries; ++i) {
    const auto before = HostClock::now();
    const Mark mark = take(first);
    first.synchronize();
    const auto between = HostClock::now() - before;
    if (between >= nearest) {
      give_back(mark);
      continue;
    }
    if (base_.event != nullptr) give_back(base_);
    nearest = between;
    base_ = mark;
    base_time_ = before + between / 2;
  }
}

TimedMarks::HostClock::time_point TimedMarks::time_of(const Mark& mark) {
  constexpr double far = 10;
  const double seconds = seconds_between(base_, mark);
  const auto at =
      base_time_ + std::chrono::duration_cast<HostClock::duration>(std::chrono::duration<double>(seconds));
  if (seconds < far) {
    give_back(mark);
  } else {
    give_back(base_);
    base_ = mark;
    base_time_ = at;
  }
  return at;
}

DeviceClock::DeviceClock(int device) : marks_(std::make_shared<TimedMarks>(device)) {
  marks_->set_base();
}

void DeviceClock::note(Stream stream, std::shared_ptr<Clock::time_point> to) {
  const TimedMarks::Mark mark = marks_->take(stream);
  notes_.push_back({mark, std::move(to)});
}

void DeviceClock::collect() {
  while (!notes_.empty() && marks_->passed(notes_.front().mark)) {
    const Note note = std::move(notes_.front());
    notes_.pop_front();
    *note.to = marks_->time_of(note.mark);
  }
}

void DeviceClock::finish(Deadline deadline) {
  for (Backoff backoff; collect(), !notes_.empty(); backoff.pause()) {
    if (deadline.passed()) {
      throw Error(
          ErrorKind::timeout,
          text("a device had not passed a place in its streams after ", deadline.waited_seconds(), " s"),
          "finish the step on all ranks before its times are asked for");
    }
  }
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
