#pragma once
// The ticket of one operation: ask whether it is done, wait for it with a deadline, read its error.
//
// A Work need not be kept: the stream carries the operation out all the same. A value; any thread may ask.
// wait() blocks the host; to make another stream wait, hand it the event: stream.wait(work.event()).
//
//   Work work = comm.all_reduce(gradient, ReduceOp::sum, wire);
//   ...                                             // compute meanwhile
//   work.wait();                                    // at most the communicator's timeout

#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>

#include "weft/core/deadline.hpp"
#include "weft/core/event.hpp"

namespace weft {

class Work {
 public:
  Work() = default;
  /// @param operation a name that lasts for ever
  Work(Event event, std::string_view operation, std::uint64_t number)
      : event_(std::move(event)), operation_(operation), number_(number) {}

  bool done() const { return event_.done(); }
  std::exception_ptr error() const { return event_.error(); }
  /// @throws the operation's error; Error (timeout) naming the operation at the deadline
  void wait(Deadline deadline = Deadline::never()) const;

  const Event& event() const { return event_; }
  std::string_view operation() const { return operation_; }
  /// Its place among the communicator's operations of its kind of numbering, from 1.
  std::uint64_t number() const { return number_; }

 private:
  Event event_;
  std::string_view operation_ = "nothing";
  std::uint64_t number_ = 0;
};

}  // namespace weft
