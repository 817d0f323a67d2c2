#include "weft/core/stream.hpp"

#include <utility>

#include "core/cuda/stream.hpp"
#include "core/stream_state.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"

namespace weft {

void Task::rest(std::chrono::microseconds at_most) {
  Backoff::sleep(at_most);
}

bool Event::done() const {
  if (!completion_ || !completion_->pending()) return true;
  completion_->drive();
  return !completion_->pending();
}

void Event::rest(std::chrono::microseconds at_most) const {
  if (completion_) completion_->rest(at_most);
}

std::exception_ptr Event::error() const {
  return completion_ ? completion_->error() : nullptr;
}

void Event::wait(Deadline deadline) const {
  if (!done() && completion_->awaited_by_its_own_stream()) {
    throw Error(ErrorKind::usage, "work on a stream waits for that very stream",
                "wait in the thread that submits the work, or use another stream");
  }
  const auto rest = [this](std::chrono::microseconds at_most) { this->rest(at_most); };
  for (Backoff backoff; !done(); backoff.pause(rest)) {
    if (deadline.passed()) {
      throw Error(ErrorKind::timeout,
                  text("an event had not happened after ", deadline.waited_seconds(), " s"));
    }
  }
  if (auto failure = error()) std::rethrow_exception(failure);
}

Stream::Stream() : Stream(detail::make_inline_stream()) {}
Stream::Stream(Device device)
    : Stream(device.is_host() ? detail::make_inline_stream()
                              : detail::cuda::make_stream(device.index(), nullptr)) {}
Stream::Stream(std::shared_ptr<detail::StreamState> state) : state_(std::move(state)) {}
Stream Stream::queued() {
  return Stream(detail::make_queued_stream());
}

Device Stream::device() const {
  return state_->device();
}

bool Stream::is_inline() const {
  return state_->is_inline();
}

Event Stream::submit(std::unique_ptr<Task> task) {
  return Event(state_->submit(std::move(task)));
}

void Stream::wait(Event event) {
  if (event.done() && !event.error()) return;
  state_->submit(state_->wait_for(std::move(event)));
}

Event Stream::record() const {
  return Event(state_->record());
}

bool Stream::poll() {
  if (state_->idle() || state_->runs_in_this_thread()) return true;
  state_->progress();
  return state_->idle();
}

void Stream::synchronize(Deadline deadline) {
  record().wait(deadline);
}

}  // namespace weft
