#include "compression/cuda/low_rank_kernels.hpp"

#include <mutex>

#include "weft/core/error.hpp"
#if WEFT_HAS_CUDA
#include "compression/cuda/low_rank_driver.hpp"
#endif

namespace weft::detail::cuda {
namespace {

struct InForce {
  std::mutex mutex;
  std::shared_ptr<LowRankKernels> kernels;
};

InForce& in_force() {
  static InForce one;
  return one;
}

std::shared_ptr<LowRankKernels> make_default() {
#if WEFT_HAS_CUDA
  return make_low_rank_driver();
#else
  throw Error(ErrorKind::usage, "PowerSGD on a CUDA device asked of a weft that was built without CUDA",
              "build it where nvcc is (WEFT_CUDA=ON), or use the host");
#endif
}

}  // namespace

std::shared_ptr<LowRankKernels> low_rank_kernels() {
  InForce& one = in_force();
  const std::lock_guard lock(one.mutex);
  if (!one.kernels) one.kernels = make_default();
  return one.kernels;
}

void replace_low_rank_kernels(std::shared_ptr<LowRankKernels> others) {
  InForce& one = in_force();
  const std::lock_guard lock(one.mutex);
  one.kernels = std::move(others);
}

}  // namespace weft::detail::cuda
