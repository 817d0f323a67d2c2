#pragma once
// The ticket of one operation: ask whether it is done, wait for it with a deadline, read its error.
//
// A wait that expires says for which ranks, where that can be seen. It breaks nothing: the operation goes on until the timeout that the
// communicator had when it was issued (Communicator::timeout), and one may wait again.
//
// A Work need not be kept: the stream carries the operation out all the same. A value; any thread may ask.
// wait() blocks the host; to make another stream wait, hand it the event: stream.wait(work.event()).
//
//   Work work = comm.all_reduce(gradient, ReduceOp::sum, wire);
//   ...                                             // compute meanwhile
//   work.wait();                                    // at most the communicator's timeout
//   work.then([&] { ready.push(gradient); });       // or: called when it is done (weft/core/event.hpp says where)

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "weft/core/deadline.hpp"
#include "weft/core/event.hpp"

namespace weft {

namespace detail {
class UnderWay;
}  // namespace detail

class Work {
 public:
  Work() = default;
  /// @param operation a name that lasts for ever
  Work(Event event, std::string_view operation, std::uint64_t number)
      : event_(std::move(event)), operation_(operation), number_(number) {}
  /// @param under_way says for whom it waits
  Work(Event event, std::string_view operation, std::uint64_t number,
       std::shared_ptr<const detail::UnderWay> under_way)
      : event_(std::move(event)), operation_(operation), number_(number), under_way_(std::move(under_way)) {}

  bool done() const { return event_.done(); }
  std::exception_ptr error() const { return event_.error(); }
  /// @throws the operation's error; Error (timeout) naming the operation, and the ranks that it waits for, at the deadline
  void wait(Deadline deadline = Deadline::never()) const;
  /// Calls `function` once when the operation is done, with or without an error (Event::then).
  void then(std::function<void()> function) const { event_.then(std::move(function)); }

  /// Whose message a receive_any of the group took, once it is done without an error. @param receive which of its receive_any, from 0
  /// @throws Error (usage) before, and where the group has no such receive
  int source(std::size_t receive = 0) const;

  const Event& event() const { return event_; }
  std::string_view operation() const { return operation_; }
  /// Its place among the communicator's operations of its kind of numbering, from 1.
  std::uint64_t number() const { return number_; }

 private:
  Event event_;
  std::string_view operation_ = "nothing";
  std::uint64_t number_ = 0;
  std::shared_ptr<const detail::UnderWay> under_way_{};  // null: it was done at once
};

}  // namespace weft
