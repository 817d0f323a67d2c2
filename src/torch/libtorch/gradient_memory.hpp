#pragma once
// Memory for large gradients, where ranks of a node reach them and reduce them without a copy.
//
// Torch has one allocator for CPU memory, which is told the size of a gradient and nothing else. So the first
// GradientMemory of a process puts an allocator before that one, for good; what the other one gave goes back to
// it. Where gradients are off, as they are in a backward pass, it gives memory of a communicator to threads that
// have a GradientMemory, for the sizes of large gradients. Another tensor of that size gets such memory, too: the
// heap keeps it for the next one when it is freed.
//
// Ranks that are threads reach all memory of their process: there nothing is put before torch's allocator.
//
//   GradientMemory memory(comm, layout);              // on the thread that will call backward()
//   if (memory.holds(parameter.grad())) reducer.mark_ready_in_place(id, view(parameter.grad(), dtype), stream);
//
// Tensors may outlive it. Not for a child after fork(), whom torch's own allocator serves.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/param_layout.hpp"

namespace weft::torch::detail {

class GradientMemory {
 public:
  /// Smaller gradients share buckets, and a copy of them is still in the cache.
  static constexpr std::size_t large = std::size_t{256} << 10;

  GradientMemory(const Communicator& comm, const ParamLayout& layout);

  /// Whether ranks reach the tensor's memory, of which it is all. The tensor is dense.
  bool holds(const at::Tensor& tensor) const;

  struct Pool;

 private:
  std::shared_ptr<Pool> pool_;
};

}  // namespace weft::torch::detail
