#include "zero/cuda/update_kernels.hpp"

#include "core/cuda/replaceable.hpp"
#include "weft/core/error.hpp"
#if WEFT_HAS_CUDA
#include "zero/cuda/update_driver.hpp"
#endif

namespace weft::detail::cuda {
namespace {

std::shared_ptr<UpdateKernels> make_default() {
#if WEFT_HAS_CUDA
  return make_update_driver();
#else
  throw Error(ErrorKind::usage,
              "an optimizer's step on a CUDA device asked of a weft that was built without CUDA",
              "build it where nvcc is (WEFT_CUDA=ON), or use the host");
#endif
}

Replaceable<UpdateKernels>& one() {
  static Replaceable<UpdateKernels> kernels(make_default);
  return kernels;
}

}  // namespace

std::shared_ptr<UpdateKernels> update_kernels() {
  return one().in_force();
}

void replace_update_kernels(std::shared_ptr<UpdateKernels> others) {
  one().replace(std::move(others));
}

}  // namespace weft::detail::cuda
