#include "zero/update/update_cuda.hpp"

#include "core/cuda/replaceable.hpp"
#include "weft/core/error.hpp"
#if WEFT_HAS_CUDA
#include "zero/update/update_launch.hpp"
#endif

namespace weft::detail::cuda {
namespace {

#if WEFT_HAS_CUDA
class UpdateDriver final : public UpdateKernels {
 public:
  void update(const StepArrays& arrays, const StepFactors& factors, int device, NativeStream stream,
              std::optional<Arithmetic> arithmetic) override {
    const std::shared_ptr<Runtime> cuda = runtime();
    const Current current(*cuda, device);
    Arithmetic fitting = arithmetic.value_or(Arithmetic::f64);
    if (!arithmetic) launched(kernels::fitting(fitting), "update", device);
    launched(kernels::update(arrays, factors, fitting, stream), "update", device);
  }
  void add_squares(View sum, ConstView gradients, NativeStream stream) override {
    const int device = gradients.device().index();
    const std::shared_ptr<Runtime> cuda = runtime();
    const Current current(*cuda, device);
    launched(kernels::add_squares(static_cast<std::int64_t*>(sum.data()), gradients, stream), "squares",
             device);
  }

 private:
  static void launched(cudaError_t code, const char* kernel, int device) {
    if (code == cudaSuccess) return;
    cudaGetLastError();  // clears it, so that no later call reports it again
    throw Error(
        ErrorKind::system,
        text("cannot launch ", kernel, " on ", Device::cuda(device), ": CUDA: ", cudaGetErrorString(code)),
        "the driver's log (dmesg, Xid) may say more");
  }
};
#endif

std::shared_ptr<UpdateKernels> make_default() {
#if WEFT_HAS_CUDA
  return std::make_shared<UpdateDriver>();
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
