#pragma once
// A point in a stream's order of work, which the host or another stream can wait for.
//
// Stream::record() makes one. It is done when everything submitted to that stream before has finished, and
// failed when any of it threw: waiting rethrows that error. A default-made Event is done. A value: copies
// name the same point; any thread may ask. Asking progresses an inline stream, so that polling an event is
// enough to see it happen.
//
//   Event packed = compute.record();
//   wire.wait(packed);                            // wire's next work starts after `packed`; the host goes on
//   packed.wait(Deadline::in(10s));               // or: the host waits
//
// WRONG: letting the Stream go before the Event is done, inside a catch block: a stream destroyed while an
// exception is unwinding drops its work, and the event then reports that.

#include <exception>
#include <memory>

#include "weft/core/deadline.hpp"

namespace weft {

namespace detail {
class Completion;
struct Behind;
}  // namespace detail

class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<detail::Completion> completion) : completion_(std::move(completion)) {}

  /// Whether the point is passed, with or without an error; never blocks.
  bool done() const;
  /// The error that broke the stream, null while there is none.
  std::exception_ptr error() const;
  /// Blocks the host. @throws what the stream's work threw; Error (timeout) at the deadline
  void wait(Deadline deadline = Deadline::never()) const;
  /// For tasks that poll it: sleeps until it may have come nearer, at most so long (Task::rest).
  void rest(std::chrono::microseconds at_most) const;

 private:
  friend struct detail::Behind;

  std::shared_ptr<detail::Completion> completion_;
};

}  // namespace weft
