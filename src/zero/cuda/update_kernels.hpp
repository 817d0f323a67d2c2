#pragma once
// What an optimizer's step asks of a CUDA device, behind one interface: so that its logic is compiled and
// tested where no CUDA is, over a fake whose kernel is the host twin, update() of zero/update_kernel.hpp. All
// bits are the twin's; NaN is NaN.
//
// A call hands work to a stream and returns. Any thread may call.

#include <memory>

#include "core/cuda/runtime.hpp"
#include "zero/update_kernel.hpp"

namespace weft::detail::cuda {

class UpdateKernels {
 public:
  virtual ~UpdateKernels() = default;
  UpdateKernels() = default;
  UpdateKernels(const UpdateKernels&) = delete;
  UpdateKernels& operator=(const UpdateKernels&) = delete;

  /// @param device that the stream belongs to
  /// @throws Error (system) when the driver refuses the launch
  virtual void update(const StepArrays& arrays, const StepFactors& factors, int device,
                      NativeStream stream) = 0;
};

/// The ones in force. @throws Error (usage) in a build without CUDA
std::shared_ptr<UpdateKernels> update_kernels();

/// Puts others in force, for tests. Null: CUDA's own again.
void replace_update_kernels(std::shared_ptr<UpdateKernels> others);

}  // namespace weft::detail::cuda
