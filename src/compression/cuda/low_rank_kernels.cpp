#include "compression/cuda/low_rank_kernels.hpp"

#include "core/cuda/replaceable.hpp"
#include "weft/core/error.hpp"
#if WEFT_HAS_CUDA
#include "compression/cuda/low_rank_driver.hpp"
#endif

namespace weft::detail::cuda {
namespace {

std::shared_ptr<LowRankKernels> make_default() {
#if WEFT_HAS_CUDA
  return make_low_rank_driver();
#else
  throw Error(ErrorKind::usage, "PowerSGD on a CUDA device asked of a weft that was built without CUDA",
              "build it where nvcc is (WEFT_CUDA=ON), or use the host");
#endif
}

Replaceable<LowRankKernels>& one() {
  static Replaceable<LowRankKernels> kernels(make_default);
  return kernels;
}

}  // namespace

std::shared_ptr<LowRankKernels> low_rank_kernels() {
  return one().in_force();
}

void replace_low_rank_kernels(std::shared_ptr<LowRankKernels> others) {
  one().replace(std::move(others));
}

}  // namespace weft::detail::cuda
