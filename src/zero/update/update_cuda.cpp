#include "zero/update/update_cuda.hpp"

#include "core/cuda/replaceable.hpp"
#if WEFT_HAS_CUDA
#include "core/cuda/launched.hpp"
#include "zero/update/update_launch.hpp"
#endif

namespace weft::detail::cuda {
namespace {

#if WEFT_HAS_CUDA
class UpdateDriver final : public UpdateKernels {
 public:
  void update(const StepArrays& arrays, const StepFactors& factors, Place place,
              std::optional<Arithmetic> arithmetic) override {
    launch_at(place, "update", [&](auto stream) {
      Arithmetic fitting = arithmetic.value_or(Arithmetic::f64);
      const cudaError_t code = arithmetic ? cudaSuccess : kernels::find_fitting(fitting);
      return code == cudaSuccess ? kernels::update(arrays, factors, fitting, stream) : code;
    });
  }
  void add_squares(View sum, std::span<const ConstView> gradients, Place place) override {
    launch_at(place, "squares", [&](auto stream) {
      return kernels::add_squares(static_cast<std::int64_t*>(sum.data()), gradients, stream);
    });
  }
};
#endif

std::shared_ptr<UpdateKernels> make_default() {
#if WEFT_HAS_CUDA
  return std::make_shared<UpdateDriver>();
#else
  refuse_without_cuda("an optimizer's step on a CUDA device");
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
