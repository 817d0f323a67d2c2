#pragma once
// The kernels of PowerSGD on a CUDA device, behind one interface. So the code that uses them is compiled and
// tested without CUDA, with a fake that runs the functions of on_host
// (compression/power_sgd/low_rank_jobs.hpp).
//
// All bits are those of on_host, except for products that sum over rows: a device adds these by blocks of
// rows (project_transposed, see low_rank_launch.hpp). They are within rounding of the host's, and the same in
// every run and on every device. Such a product is one rank's own, so ranks still decide alike.
//
// A call submits work to a stream and returns; lists are read during the call. Any thread may call. All
// functions throw Error (system) when the driver refuses a launch.

#include <memory>
#include <span>

#include "compression/power_sgd/low_rank_jobs.hpp"
#include "core/cuda/runtime.hpp"

namespace weft::detail::cuda {

class LowRankKernels {
 public:
  using Jobs = std::span<const LowRankJob>;

  virtual ~LowRankKernels() = default;
  LowRankKernels() = default;
  LowRankKernels(const LowRankKernels&) = delete;
  LowRankKernels& operator=(const LowRankKernels&) = delete;

  virtual void multiply(Jobs jobs, Place place) = 0;
  /// @param bad set to 1 if anything is not finite, otherwise left unchanged; in memory that kernels can write
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

/// The kernels in use: CUDA's own unless a test has replaced them. @throws Error (usage) in a build without
/// CUDA
std::shared_ptr<LowRankKernels> low_rank_kernels();

/// Replaces the kernels, for tests. Null: CUDA's own again.
void replace_low_rank_kernels(std::shared_ptr<LowRankKernels> others);

}  // namespace weft::detail::cuda
