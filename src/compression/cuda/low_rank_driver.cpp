#include "compression/cuda/low_rank_driver.hpp"

#include <algorithm>
#include <vector>

#include "compression/cuda/low_rank_launch.hpp"
#include "weft/core/error.hpp"

namespace weft::detail::cuda {
namespace {

/// Launches on the place's device. @throws Error (system) in the driver's own words
template <class Launch>
void launch(const char* kernel, LowRankKernels::Place place, Launch launch) {
  const std::shared_ptr<Runtime> cuda = runtime();
  const Current current(*cuda, place.device);
  const cudaError_t code = launch(place.stream);
  if (code == cudaSuccess) return;
  cudaGetLastError();  // said once, here
  throw Error(ErrorKind::system,
              text("cannot launch ", kernel, " on ", Device::cuda(place.device),
                   ": CUDA: ", cudaGetErrorString(code)),
              "the driver's log (dmesg, Xid) may say more");
}

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
    launch("project", place, [&](auto stream) { return kernels::project(left, stream); });
    launch("project_transposed", place,
           [&](auto stream) { return kernels::project_transposed(right, stream); });
  }
  void judge(Jobs jobs, std::int32_t* bad, Place place) override {
    launch("judge", place, [&](auto stream) { return kernels::judge(jobs, bad, stream); });
  }
  void judge(ConstView sums, std::int32_t* bad, Place place) override {
    launch("judge", place, [&](auto stream) { return kernels::judge(sums, bad, stream); });
  }
  void judge_counts(ConstView counts, std::int32_t* bad, Place place) override {
    launch("judge_counts", place, [&](auto stream) { return kernels::judge_counts(counts, bad, stream); });
  }
  void orthonormalize(Jobs jobs, Place place) override {
    launch("orthonormalize", place, [&](auto stream) { return kernels::orthonormalize(jobs, stream); });
  }
  void start_next(Jobs jobs, Place place) override {
    launch("start_next", place, [&](auto stream) { return kernels::start_next(jobs, stream); });
  }
  void start_anew(Jobs jobs, Place place) override {
    launch("start_anew", place, [&](auto stream) { return kernels::start_anew(jobs, stream); });
  }
  void rebuild(Jobs jobs, Place place) override {
    launch("rebuild", place, [&](auto stream) { return kernels::rebuild(whole(jobs), stream); });
  }
  void keep_residuals(Jobs jobs, Place place) override {
    launch("keep_residuals", place,
           [&](auto stream) { return kernels::keep_residuals(whole(jobs), stream); });
  }
  void expand(std::span<const LowRankPart> parts, Place place) override {
    launch("expand", place, [&](auto stream) { return kernels::expand(parts, stream); });
  }
};

}  // namespace

std::shared_ptr<LowRankKernels> make_low_rank_driver() {
  return std::make_shared<LowRankDriver>();
}

}  // namespace weft::detail::cuda
