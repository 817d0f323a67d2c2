#include "weft/core/stream_trace.hpp"

#include <atomic>
#include <deque>
#include <utility>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "weft/core/backoff.hpp"
#include "weft/interop/cuda.hpp"

namespace weft {

/// What the stream's own work writes to; it may outlive the StreamTrace.
class StreamTrace::State {
 public:
  State(std::shared_ptr<Trace> trace, std::string track)
      : trace_(std::move(trace)), track_(std::move(track)) {}
  virtual ~State() = default;
  /// Submits the reading of the clock.
  virtual void begin(Stream& stream, std::string name, const std::shared_ptr<State>& self) = 0;
  virtual void end(Stream& stream, const std::shared_ptr<State>& self) = 0;
  bool open = false;

 protected:
  void record(const std::string& name, Trace::Clock::time_point begin, Trace::Clock::time_point end) {
    trace_->span(track_, name, begin, end);
  }

 private:
  std::shared_ptr<Trace> trace_;
  std::string track_;
};

namespace {

using Clock = Trace::Clock;

}  // namespace

class StreamTrace::OnHost final : public StreamTrace::State {
 public:
  using State::State;

  void begin(Stream& stream, std::string name, const std::shared_ptr<State>& self) override {
    stream.run([this, self, name = std::move(name)] {
      name_ = name;
      begun_ = Clock::now();
    });
  }
  void end(Stream& stream, const std::shared_ptr<State>& self) override {
    stream.run([this, self] { record(name_, begun_, Clock::now()); });
  }

 private:
  std::string name_;  // of the stream's thread
  Clock::time_point begun_;
};

/// The device's clock beside the host's: one event that both have seen, and times from there.
class StreamTrace::OnDevice final : public StreamTrace::State {
 public:
  OnDevice(std::shared_ptr<Trace> trace, std::string track, int device)
      : State(std::move(trace), std::move(track)),
        runtime_(detail::cuda::runtime()),
        device_(device),
        base_(take()) {
    Stream first{Device::cuda(device)};
    runtime_->record(base_, native_handle(first));
    for (Backoff backoff; !runtime_->passed(base_); backoff.pause()) {
    }
    base_time_ = Clock::now();
  }
  ~OnDevice() override {
    try {
      collect();
    } catch (...) {  // NOLINT(bugprone-empty-catch): whoever waits for the stream hears of it
    }
    for (const Span& span : spans_) {
      free_.push_back(span.begin.event);
      free_.push_back(span.end.event);
    }
    if (open_.begin.event != nullptr) free_.push_back(open_.begin.event);
    for (const auto event : free_) runtime_->destroy(event);
    runtime_->destroy(base_);
  }

  void begin(Stream& stream, std::string name, const std::shared_ptr<State>& self) override {
    collect();
    open_ = {std::move(name), mark(stream, self), {}};
  }
  void end(Stream& stream, const std::shared_ptr<State>& self) override {
    open_.end = mark(stream, self);
    spans_.push_back(std::exchange(open_, {}));
  }

 private:
  using Event = detail::cuda::NativeEvent;
  /// An event is recorded when its turn in the host's queue comes; before, CUDA takes it for passed.
  struct Mark {
    Event event = nullptr;
    std::shared_ptr<std::atomic<bool>> recorded{};
  };
  struct Span {
    std::string name;
    Mark begin;
    Mark end;
  };

  Event take() {
    if (free_.empty()) return runtime_->make_event(device_, true);
    const Event event = free_.back();
    free_.pop_back();
    return event;
  }
  Mark mark(Stream& stream, const std::shared_ptr<State>& self) {
    Mark mark{take(), std::make_shared<std::atomic<bool>>(false)};
    stream.run([this, self, mark, native = native_handle(stream)] {
      runtime_->record(mark.event, native);
      *mark.recorded = true;
    });
    return mark;
  }
  Clock::time_point time_of(Event event) {
    return base_time_ + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(runtime_->seconds_between(base_, event)));
  }
  void collect() {
    while (!spans_.empty() && *spans_.front().end.recorded && runtime_->passed(spans_.front().end.event)) {
      const Span span = std::move(spans_.front());
      spans_.pop_front();
      record(span.name, time_of(span.begin.event), time_of(span.end.event));
      free_.push_back(span.begin.event);
      free_.push_back(span.end.event);
    }
  }

  std::shared_ptr<detail::cuda::Runtime> runtime_;
  int device_;
  std::vector<Event> free_;
  Event base_;
  Clock::time_point base_time_;
  Span open_;
  std::deque<Span> spans_;
};

StreamTrace::StreamTrace(std::shared_ptr<Trace> trace, Device device, std::string track) {
  if (trace == nullptr) return;
  if (device.is_host()) {
    state_ = std::make_shared<OnHost>(std::move(trace), std::move(track));
  } else {
    state_ = std::make_shared<OnDevice>(std::move(trace), std::move(track), device.index());
  }
}

void StreamTrace::begin(Stream stream, std::string name) {
  if (!state_) return;
  end(stream);
  state_->begin(stream, std::move(name), state_);
  state_->open = true;
}

void StreamTrace::end(Stream stream) {
  if (!state_ || !state_->open) return;
  state_->open = false;
  state_->end(stream, state_);
}

}  // namespace weft
