#pragma once
// How much of an optimizer's state should lie on the host, from what the first steps show.

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "weft/collectives/communicator.hpp"
#include "zero/state_arrays.hpp"

namespace weft::detail {

/// Bytes of parameters a second.
struct OffloadRates {
  double device = 0;  ///< updated there
  double down = 0;    ///< their gradients
  double host = 0;    ///< updated there
  double up = 0;
  double file = std::numeric_limits<double>::infinity();  ///< its state read and written
};

/// What nothing hides of a step: the device's update, and what is left of the host's (which is as fast as the
/// slowest of its ways) after `hidden_seconds`.
double exposed_seconds(const OffloadRates& rates, double bytes, double hidden_seconds, double share);
/// The share of `bytes`, on the host, for which that is least.
double best_share(const OffloadRates& rates, double bytes, double hidden_seconds);

/// Of one tile, on scratch memory; the best of some. Not the file's.
OffloadRates measured_rates(Device device, const StateKind& kind, const StepFactors& factors,
                            std::size_t tile_bytes);

class ShareFinder {
 public:
  explicit ShareFinder(std::size_t tile_bytes) : tile_bytes_(tile_bytes) {}

  /// A bucket of this step is on the wire: the forward pass is over.
  void landed();
  /// Backward is over. @param exposed seconds of waiting so far, which are none to hide behind
  /// @param hides_behind_backward whether updates began as buckets landed
  void begin_step(const Stream& compute, double exposed, bool hides_behind_backward);
  void end_step(double exposed);
  bool knows_enough() const { return steps_ == 3; }
  /// With every rank's slowest rates and shortest time. Collective; blocks.
  double share(Communicator comm, const StateKind& kind, const StepFactors& factors, std::size_t bytes,
               double file_rate) const;

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t tile_bytes_;
  int steps_ = 0;
  Clock::time_point ended_{};  // the step before
  std::optional<Clock::time_point> landed_{};
  double exposed_ = 0;  // when it ended
  std::optional<double> hidden_seconds_{};
};

}  // namespace weft::detail
