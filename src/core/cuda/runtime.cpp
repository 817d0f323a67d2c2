#include "core/cuda/runtime.hpp"

#include "core/cuda/replaceable.hpp"
#include "weft/core/error.hpp"

namespace weft::detail::cuda {
namespace {

std::shared_ptr<Runtime> make_default() {
#if WEFT_HAS_CUDA
  return make_driver();
#else
  refuse_without_cuda("a CUDA device");
#endif
}

Replaceable<Runtime>& one() {
  static Replaceable<Runtime> runtime(make_default);
  return runtime;
}

}  // namespace

void refuse_without_cuda(const char* what) {
  throw Error(ErrorKind::usage, text(what, " asked of a weft that was built without CUDA"),
              "build it where nvcc is (WEFT_CUDA=ON), or use the host");
}

std::shared_ptr<Runtime> runtime() {
  return one().in_force();
}

void replace_runtime(std::shared_ptr<Runtime> other) {
  one().replace(std::move(other));
}

}  // namespace weft::detail::cuda
