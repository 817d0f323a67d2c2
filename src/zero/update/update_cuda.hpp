#pragma once
// The CUDA kernels of an optimizer's step behind one interface, so that the code around them compiles and is
// tested without CUDA: tests replace them by a fake that calls update() of update_kernel.hpp and add_squares() of
// zero/optimizer/gradient_norm.hpp. Kernels give the same bits as those, but for the bits of NaN.
//
// A call enqueues work on a stream and returns. Any thread may call.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/streams/cuda_stream.hpp"
#include "weft/core/view.hpp"
#include "zero/update/update_kernel.hpp"

namespace weft::detail::cuda {

/// How a kernel computes an element: both give the same bits.
enum class Arithmetic : std::uint8_t {
  f64,
  pairs,  ///< of f32 (float_pair.cuh), and f64 where they are not sure
};

class UpdateKernels {
 public:
  virtual ~UpdateKernels() = default;
  UpdateKernels() = default;
  UpdateKernels(const UpdateKernels&) = delete;
  UpdateKernels& operator=(const UpdateKernels&) = delete;

  /// @param arithmetic that which the device is fast in, unless it is given
  /// @throws Error (system) when the driver refuses the launch
  virtual void update(const StepArrays& arrays, const StepFactors& factors, Place place,
                      std::optional<Arithmetic> arithmetic = std::nullopt) = 0;
  /// Adds gradients^2, of f32, f16 or bf16: a launch for every 64 pieces.
  /// @param sum what ExactSum::put() writes, on the device
  /// @param gradients pieces of one type, each of which begins on a cache line
  virtual void add_squares(View sum, std::span<const ConstView> gradients, Place place) = 0;
};

/// The kernels in use. @throws Error (usage) in a build without CUDA
std::shared_ptr<UpdateKernels> update_kernels();

/// Replaces the kernels, for tests. Null restores those of CUDA.
void replace_update_kernels(std::shared_ptr<UpdateKernels> others);

}  // namespace weft::detail::cuda
