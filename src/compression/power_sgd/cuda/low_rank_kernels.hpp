#pragma once
// What PowerSGD asks of a CUDA device, behind one interface: so that its logic is compiled and tested where
// no CUDA is, over a fake whose kernels are the host twins (on_host in compression/low_rank_jobs.hpp).
//
// All bits are the twins', but for the product of which the sums run over rows: there a device adds by blocks
// of rows (project_transposed, see low_rank_launch.hpp), and is within rounding of the host; it gives the
// same bits in every run and on every device. That product is a rank's own, so ranks still decide alike.
//
// Calls hand work to a stream and return; lists are read during the call. Any thread may call.
// All throw Error (system) when the driver refuses a launch.

#include <memory>
#include <span>

#include "compression/power_sgd/low_rank_jobs.hpp"
#include "core/cuda/runtime.hpp"

namespace weft::detail::cuda {

class LowRankKernels {
 public:
  using Jobs = std::span<const LowRankJob>;
  /// Where work goes: a stream, and the device that it belongs to.
  struct Place {
    int device = 0;
    NativeStream stream = nullptr;
  };

  virtual ~LowRankKernels() = default;
  LowRankKernels() = default;
  LowRankKernels(const LowRankKernels&) = delete;
  LowRankKernels& operator=(const LowRankKernels&) = delete;

  virtual void multiply(Jobs jobs, Place place) = 0;
  /// @param bad becomes 1 where something is, and stays what it was otherwise; kernels reach it
  virtual void check_finite(Jobs jobs, std::int32_t* bad, Place place) = 0;
  virtual void check_finite(ConstView sums, std::int32_t* bad, Place place) = 0;
  virtual void check_counts(ConstView counts, std::int32_t* bad, Place place) = 0;
  virtual void orthonormalize(Jobs jobs, Place place) = 0;
  virtual void start_next(Jobs jobs, Place place) = 0;
  virtual void start_anew(Jobs jobs, Place place) = 0;
  virtual void rebuild(Jobs jobs, Place place) = 0;
  virtual void keep_residuals(Jobs jobs, Place place) = 0;
  virtual void expand(std::span<const LowRankPart> parts, Place place) = 0;
};

/// The ones in force. @throws Error (usage) in a build without CUDA
std::shared_ptr<LowRankKernels> low_rank_kernels();

/// Puts others in force, for tests. Null: CUDA's own again.
void replace_low_rank_kernels(std::shared_ptr<LowRankKernels> others);

}  // namespace weft::detail::cuda
