#pragma once
// Finds the share of an optimizer's state that should lie on the host.
//
// 1. The first three steps have all state off the device. ShareFinder measures how much time a step leaves to
//    hide host updates behind: backward and forward if updates begin as buckets are reduced, otherwise the
//    forward pass alone.
// 2. It times one tile on each path: update on the device, copy to the host, update there, copy back. The
//    file's rate is measured by OffloadedState.
// 3. share() takes the slowest rates and the shortest time of all ranks and returns the share for which the
//    exposed time is least. Cost: one all-reduce of six f64.

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "weft/collectives/communicator.hpp"
#include "zero/offload/state_layout.hpp"

namespace weft::detail {

/// Bytes of parameters per second on each path.
struct OffloadRates {
  double device = 0;  ///< update on the device
  double down = 0;    ///< gradients copied to the host
  double host = 0;    ///< update on the host
  double up = 0;      ///< parameters copied to the device
  /// State read from and written to the file.
  double file = std::numeric_limits<double>::infinity();
};

/// The exposed time of a step's update: the device's own update, and the host's (as fast as the slowest of
/// its paths) beyond `hidden_seconds`.
double exposed_seconds(const OffloadRates& rates, double bytes, double hidden_seconds, double share);
/// The share of `bytes` on the host for which exposed_seconds() is least.
double best_share(const OffloadRates& rates, double bytes, double hidden_seconds);

/// Rates of one tile in scratch memory, the best of four trials; the file is left out.
OffloadRates measured_rates(Device device, const StateKind& kind, const StepFactors& factors,
                            std::size_t tile_bytes);

class ShareFinder {
 public:
  explicit ShareFinder(std::size_t tile_bytes) : tile_bytes_(tile_bytes) {}

  /// Call it when a bucket of this step is handed to the reducer's wire; the first call ends the forward pass.
  void bucket_reduced();
  /// Call it at the end of backward. @param exposed seconds of waiting so far, which no work overlaps
  /// @param hides_behind_backward whether updates began as buckets were reduced
  void begin_step(const Stream& compute, double exposed, bool hides_behind_backward);
  void end_step(double exposed);
  bool knows_enough() const { return steps_ == 3; }
  /// The best share for the slowest rates and the shortest time of all ranks. Collective; blocks.
  double share(Communicator comm, const StateKind& kind, const StepFactors& factors, std::size_t bytes,
               double file_rate) const;

 private:
  using Clock = std::chrono::steady_clock;

  std::size_t tile_bytes_;
  int steps_ = 0;
  Clock::time_point ended_{};  // when the step before ended
  std::optional<Clock::time_point> first_reduced_{};
  double exposed_ = 0;  // seconds of waiting when it ended
  std::optional<double> hidden_seconds_{};
};

}  // namespace weft::detail
