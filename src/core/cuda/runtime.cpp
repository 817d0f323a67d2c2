#include "core/cuda/runtime.hpp"

#include <mutex>

#include "weft/core/error.hpp"
#if WEFT_HAS_CUDA
#include "core/cuda/driver.hpp"
#endif

namespace weft::detail::cuda {
namespace {

// A driver is there once per process; so is what stands for it.
struct InForce {
  std::mutex mutex;
  std::shared_ptr<Runtime> runtime;
};

InForce& in_force() {
  static InForce one;
  return one;
}

std::shared_ptr<Runtime> make_default() {
#if WEFT_HAS_CUDA
  return make_driver();
#else
  throw Error(ErrorKind::usage, "a CUDA device asked of a weft that was built without CUDA",
              "build it where nvcc is (WEFT_CUDA=ON), or use the host");
#endif
}

}  // namespace

std::shared_ptr<Runtime> runtime() {
  InForce& one = in_force();
  const std::lock_guard lock(one.mutex);
  if (!one.runtime) one.runtime = make_default();
  return one.runtime;
}

void replace_runtime(std::shared_ptr<Runtime> other) {
  InForce& one = in_force();
  const std::lock_guard lock(one.mutex);
  one.runtime = std::move(other);
}

}  // namespace weft::detail::cuda
