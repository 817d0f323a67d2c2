#pragma once
// A point in a stream's order of work, which the host or another stream can wait for.
//
// Stream::record() makes one. It is done when everything that was submitted to the stream before it has
// finished, and failed when any of that threw: waiting rethrows the error. A default-constructed Event is
// done. A value: copies name the same point, and any thread may ask. Asking progresses an inline stream, so
// that a loop that only polls the event sees it done in the end.
//
//   Event packed = compute.record();
//   wire.wait(packed);                            // wire's next work starts after `packed`; the host goes on
//   packed.wait(Deadline::in(10s));               // or: the host waits
//
// A function given to then() is called exactly once, when the event is done, with or without an error. If it is done already, that is at
// once, in the calling thread. Otherwise it is the thread that finds it done: one that waits for an event of the stream, polls it or
// submits to it, or the stream's own thread. A CUDA stream has no thread: there the function is called when the host next asks, by this
// event, Stream::poll(), Stream::synchronize() or the end of the stream. No lock of weft is held then, and no task is at work. So the
// function may submit to streams and issue operations, under the rule of their communicator: one thread at a time issues, in the order of
// all ranks. It should be short, for a stream or a waiter stands behind it. It must not throw: what it throws is logged as an error, and
// no one else hears of it. Functions of one event are called in the order of the calls of then(); between events there is no order.
//
//   packed.then([&] { loader.reuse(batch); });    // error() tells whether the work was done
//
// WRONG: event.then([stream = queued]() mutable { stream.synchronize(); });
//        // Called by the stream's own thread, which would wait for itself: an Error, which is only logged.
//
// WRONG: destroying the Stream before the Event is done, while an exception is unwinding: the stream then
// drops its work, and the event reports that.

#include <exception>
#include <functional>
#include <memory>

#include "weft/core/deadline.hpp"

namespace weft {

namespace detail {
class Completion;
struct StreamAccess;
}  // namespace detail

class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<detail::Completion> completion) : completion_(std::move(completion)) {}

  /// Whether the stream has passed the point, with or without an error; never blocks.
  bool done() const;
  /// The stream's error; null while there is none.
  std::exception_ptr error() const;
  /// Blocks the host. @throws what the stream's work threw; Error (timeout) at the deadline
  void wait(Deadline deadline = Deadline::never()) const;
  /// Calls `function` once when the event is done; see above for where. @throws Error (usage) for an empty one
  void then(std::function<void()> function) const;
  /// For a Task::rest() that waits for this event: sleeps until it may be done, for `at_most` at the longest.
  void rest(std::chrono::microseconds at_most) const;

 private:
  friend struct detail::StreamAccess;

  std::shared_ptr<detail::Completion> completion_;
};

}  // namespace weft
