#pragma once
// Contestants take turns on one case, so that a change of the machine's speed affects all of them.

#include <optional>

#include "contestant.hpp"

namespace weft::bench {

struct Timing {
  double median_seconds = 0;  ///< of one operation, on the slowest rank
  double p99_seconds = 0;
};

struct Against {
  std::string name;
  Timing time;
  double ratio = 0;  ///< its time / weft's
};

struct Result {
  Case which;
  Timing time;
  std::int64_t wrong = 0;          ///< elements, over all ranks
  std::int64_t network_bytes = 0;  ///< payload between nodes, over all ranks, by weft's count
  std::vector<Against> against;

  double algorithm_bandwidth() const {
    return static_cast<double>(which.bytes()) / time.median_seconds * 1e-9;
  }
  double bus_bandwidth() const { return algorithm_bandwidth() * row_of(which.op).bus_factor(which.ranks); }
};

struct Effort {
  int iterations = 20;  ///< samples; each of as many operations as take about a tenth of a millisecond
  int warmup = 5;
};

/// Collective. The first contestant is weft; one that does not implement the operation is left out.
/// @throws Error (internal) if another one gives wrong results
Result measure(Communicator& comm, const Case& which,
               const std::vector<std::unique_ptr<Contestant>>& contestants, const Effort& effort);

}  // namespace weft::bench
