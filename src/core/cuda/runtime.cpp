#include "core/cuda/runtime.hpp"

#include "core/cuda/replaceable.hpp"
#include "weft/core/error.hpp"
#if WEFT_HAS_CUDA
#include "core/cuda/driver.hpp"
#endif

namespace weft::detail::cuda {
namespace {

std::shared_ptr<Runtime> make_default() {
#if WEFT_HAS_CUDA
  return make_driver();
#else
  throw Error(ErrorKind::usage, "a CUDA device asked of a weft that was built without CUDA",
              "build it where nvcc is (WEFT_CUDA=ON), or use the host");
#endif
}

Replaceable<Runtime>& one() {
  static Replaceable<Runtime> runtime(make_default);
  return runtime;
}

}  // namespace

std::shared_ptr<Runtime> runtime() {
  return one().in_force();
}

void replace_runtime(std::shared_ptr<Runtime> other) {
  one().replace(std::move(other));
}

}  // namespace weft::detail::cuda
