#include "weft/core/stream.hpp"

#include <utility>

#include "core/stream_state.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

class FunctionTask final : public Task {
 public:
  explicit FunctionTask(std::function<void()> function) : function_(std::move(function)) {}
  bool advance() override {
    function_();
    return true;
  }

 private:
  std::function<void()> function_;
};

class WaitTask final : public Task {
 public:
  explicit WaitTask(Event event) : event_(std::move(event)) {}
  bool advance() override {
    if (!event_.done()) return false;
    if (auto error = event_.error()) std::rethrow_exception(error);
    return true;
  }

 private:
  Event event_;
};

}  // namespace

bool Event::done() const {
  if (!completion_ || !completion_->pending()) return true;
  completion_->drive();
  return !completion_->pending();
}

std::exception_ptr Event::error() const {
  return completion_ ? completion_->error() : nullptr;
}

void Event::wait(Deadline deadline) const {
  if (!done() && completion_->awaited_by_its_own_stream()) {
    throw Error(ErrorKind::usage, "work on a stream waits for that very stream",
                "wait in the thread that submits the work, or use another stream");
  }
  for (Backoff backoff; !done(); backoff.pause()) {
    if (deadline.passed()) {
      throw Error(ErrorKind::timeout,
                  text("an event had not happened after ", deadline.waited_seconds(), " s"));
    }
  }
  if (auto failure = error()) std::rethrow_exception(failure);
}

Stream::Stream() : Stream(detail::make_inline_stream()) {}
Stream::Stream(std::shared_ptr<detail::StreamState> state) : state_(std::move(state)) {}
Stream Stream::queued() {
  return Stream(detail::make_queued_stream());
}

bool Stream::is_inline() const {
  return state_->is_inline();
}

void Stream::run(std::function<void()> function) {
  state_->submit(std::make_unique<FunctionTask>(std::move(function)));
}

Event Stream::submit(std::unique_ptr<Task> task) {
  return Event(state_->submit(std::move(task)));
}

void Stream::wait(Event event) {
  if (event.done() && !event.error()) return;
  state_->submit(std::make_unique<WaitTask>(std::move(event)));
}

Event Stream::record() const {
  return Event(state_->last());
}

bool Stream::poll() {
  if (state_->idle()) return true;
  state_->progress();
  return state_->idle();
}

void Stream::synchronize(Deadline deadline) {
  record().wait(deadline);
}

}  // namespace weft
