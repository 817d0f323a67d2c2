#pragma once
// Operations on host memory that were not over when they were issued, of a rank's communicator and all that were split from it.
//
// One may lie in a stream that no thread waits for, such as a gather of parameters behind a step of the optimizer. The ranks that wait for it, and
// a later operation that waits for its place in shared memory, would then wait until the deadline. So an operation that waits gives the others a
// turn: those that the same thread has issued, for it would run their streams, too.

#include <mutex>
#include <thread>

#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

/// For all threads.
class OperationsUnderWay {
 public:
  void issued(const Event& event);
  /// Gives each of this thread that is not over a turn. For an operation that waits, now and then; it does not block.
  void progress();

 private:
  struct Issued {
    std::thread::id by;
    Event event;
  };

  /// The caller holds mutex_.
  void forget_those_over();

  std::mutex mutex_;
  RecycledVector<Issued> all_;  // and some that are over
};

}  // namespace weft::detail
