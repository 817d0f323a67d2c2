// Launches the kernels of orthonormal.cu, products.cu and rebuild.cu, in builds with CUDA.

#include "compression/power_sgd/cuda/low_rank_kernels.hpp"

#include <algorithm>
#include <vector>

#include "core/cuda/replaceable.hpp"
#if WEFT_HAS_CUDA
#include "compression/power_sgd/cuda/low_rank_launch.hpp"
#include "core/cuda/launched.hpp"
#endif

namespace weft::detail::cuda {
namespace {

#if WEFT_HAS_CUDA
/// Whole matrices as parts.
RecycledVector<LowRankPart> whole(LowRankKernels::Jobs jobs) {
  RecycledVector<LowRankPart> parts;
  parts.reserve(jobs.size());
  for (const LowRankJob& job : jobs) parts.push_back({job, 0, job.matrix.rows * job.matrix.columns});
  return parts;
}

class LowRankDriver final : public LowRankKernels {
 public:
  void multiply(Jobs jobs, Place place) override {
    RecycledVector<LowRankJob> left;
    RecycledVector<LowRankJob> right;
    for (const LowRankJob& job : jobs) (job.product == Side::left ? left : right).push_back(job);
    launch_at(place, "project", [&](auto stream) { return kernels::project(left, stream); });
    launch_at(place, "project_transposed",
              [&](auto stream) { return kernels::project_transposed(right, stream); });
  }
  void check_finite(Jobs jobs, std::int32_t* bad, Place place) override {
    launch_at(place, "check_finite", [&](auto stream) { return kernels::check_finite(jobs, bad, stream); });
  }
  void check_finite(ConstView sums, std::int32_t* bad, Place place) override {
    launch_at(place, "check_finite", [&](auto stream) { return kernels::check_finite(sums, bad, stream); });
  }
  void check_counts(ConstView counts, std::int32_t* bad, Place place) override {
    launch_at(place, "check_counts", [&](auto stream) { return kernels::check_counts(counts, bad, stream); });
  }
  void orthonormalize(Jobs jobs, Place place) override {
    launch_at(place, "orthonormalize", [&](auto stream) { return kernels::orthonormalize(jobs, stream); });
  }
  void start_next(Jobs jobs, Place place) override {
    launch_at(place, "start_next", [&](auto stream) { return kernels::start_next(jobs, stream); });
  }
  void start_anew(Jobs jobs, Place place) override {
    launch_at(place, "start_anew", [&](auto stream) { return kernels::start_anew(jobs, stream); });
  }
  void rebuild(Jobs jobs, Place place) override {
    launch_at(place, "rebuild", [&](auto stream) { return kernels::rebuild(whole(jobs), stream); });
  }
  void keep_residuals(Jobs jobs, Place place) override {
    launch_at(place, "keep_residuals",
              [&](auto stream) { return kernels::keep_residuals(whole(jobs), stream); });
  }
  void expand(std::span<const LowRankPart> parts, Place place) override {
    launch_at(place, "expand", [&](auto stream) { return kernels::expand(parts, stream); });
  }
};
#endif

std::shared_ptr<LowRankKernels> make_default() {
#if WEFT_HAS_CUDA
  return std::make_shared<LowRankDriver>();
#else
  refuse_without_cuda("PowerSGD on a CUDA device");
#endif
}

Replaceable<LowRankKernels>& kernels_in_use() {
  static Replaceable<LowRankKernels> kernels(make_default);
  return kernels;
}

}  // namespace

std::shared_ptr<LowRankKernels> low_rank_kernels() {
  return kernels_in_use().in_force();
}

void replace_low_rank_kernels(std::shared_ptr<LowRankKernels> others) {
  kernels_in_use().replace(std::move(others));
}

}  // namespace weft::detail::cuda
