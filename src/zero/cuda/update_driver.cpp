#include "zero/cuda/update_driver.hpp"

#include "weft/core/error.hpp"
#include "zero/cuda/update_launch.hpp"

namespace weft::detail::cuda {
namespace {

class UpdateDriver final : public UpdateKernels {
 public:
  void update(const StepArrays& arrays, const StepFactors& factors, int device,
              NativeStream stream) override {
    const std::shared_ptr<Runtime> cuda = runtime();
    const Current current(*cuda, device);
    const cudaError_t code = kernels::update(arrays, factors, stream);
    if (code == cudaSuccess) return;
    cudaGetLastError();  // said once, here
    throw Error(ErrorKind::system,
                text("cannot launch update on ", Device::cuda(device), ": CUDA: ", cudaGetErrorString(code)),
                "the driver's log (dmesg, Xid) may say more");
  }
};

}  // namespace

std::shared_ptr<UpdateKernels> make_update_driver() {
  return std::make_shared<UpdateDriver>();
}

}  // namespace weft::detail::cuda
