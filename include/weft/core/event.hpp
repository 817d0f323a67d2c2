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
// WRONG: destroying the Stream before the Event is done, while an exception is unwinding: the stream then
// drops its work, and the event reports that.

#include <exception>
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
  /// For a Task::rest() that waits for this event: sleeps until it may be done, for `at_most` at the longest.
  void rest(std::chrono::microseconds at_most) const;

 private:
  friend struct detail::StreamAccess;

  std::shared_ptr<detail::Completion> completion_;
};

}  // namespace weft
