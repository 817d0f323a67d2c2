#include "weft/core/stream_trace.hpp"

#include <deque>
#include <utility>

#include "core/cuda/timing.hpp"
#include "core/streams/one_thread.hpp"

namespace weft {

/// The part that tasks of the stream write to; queued tasks keep it alive after the StreamTrace is destroyed.
class StreamTrace::State {
 public:
  State(std::shared_ptr<Trace> trace, std::string track)
      : trace_(std::move(trace)), track_(std::move(track)) {}
  virtual ~State() = default;
  /// Both submit a task that reads the clock, or record a timed event.
  virtual void begin(Stream& stream, std::string name, const std::shared_ptr<State>& self) = 0;
  virtual void end(Stream& stream, const std::shared_ptr<State>& self) = 0;
  bool open = false;
  detail::OneThread users;

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
  std::string name_;  // used by tasks of the stream only
  Clock::time_point begun_;
};

/// Device times on the host's clock.
class StreamTrace::OnDevice final : public StreamTrace::State {
 public:
  OnDevice(std::shared_ptr<Trace> trace, std::string track, int device)
      : State(std::move(trace), std::move(track)), marks_(std::make_shared<Marks>(device)) {
    marks_->set_base();
  }
  ~OnDevice() override {
    try {
      collect();
    } catch (...) {  // NOLINT(bugprone-empty-catch): waits for the stream report it
    }
  }

  void begin(Stream& stream, std::string name, const std::shared_ptr<State>&) override {
    collect();
    open_ = {std::move(name), marks_->take(stream), {}};
  }
  void end(Stream& stream, const std::shared_ptr<State>&) override {
    open_.end = marks_->take(stream);
    spans_.push_back(std::exchange(open_, {}));
  }

 private:
  using Marks = detail::cuda::TimedMarks;
  struct Span {
    std::string name;
    Marks::Mark begin;
    Marks::Mark end;
  };

  void collect() {
    while (!spans_.empty() && marks_->passed(spans_.front().end)) {
      const Span span = std::move(spans_.front());
      spans_.pop_front();
      const auto begin = marks_->time_of(span.begin);
      record(span.name, begin, marks_->time_of(span.end));
    }
  }

  std::shared_ptr<Marks> marks_;
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
  const auto turn = state_->users.enter("StreamTrace", "begin");
  end(stream);
  state_->begin(stream, std::move(name), state_);
  state_->open = true;
}

void StreamTrace::end(Stream stream) {
  if (!state_) return;
  const auto turn = state_->users.enter("StreamTrace", "end");
  if (!state_->open) return;
  state_->open = false;
  state_->end(stream, state_);
}

}  // namespace weft
