#pragma once
// Collectives on host memory that may overlap and were not over when they were issued.
//
// A backend has places for so many at a time: in shared memory 32. One that waits for its place waits for the oldest, which may lie in a stream
// that no thread waits for, such as a gather of parameters behind a step of the optimizer.

#include <cstdint>
#include <mutex>
#include <utility>

#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"

namespace weft::detail {

/// Each communicator has one, for all threads.
class OperationsUnderWay {
 public:
  void issued(std::uint64_t number, const Event& event);
  /// For an operation that waits: gives the oldest one that is not over a turn, if it was issued before that.
  void progress_before(std::uint64_t number);

 private:
  /// Those that are over meanwhile go with the first. The caller holds mutex_.
  void forget_those_over();

  std::mutex mutex_;
  RecycledDeque<std::pair<std::uint64_t, Event>> all_;  // by number
};

}  // namespace weft::detail
