#pragma once
// Tensors as views of weft.
//
// Any dense tensor of the host, or of a CUDA device where this build has CUDA, can be moved: one whose type weft has no name for goes as numbers of the same
// size, or as bytes. A sum takes the types that weft adds up; bool is a u8 of 0 and 1, of which a sum is the
// or and a product the and; a complex number is two reals, of which only sums and means make sense. A tensor
// that is not contiguous, or is only marked as negated or conjugated, is exchanged through a plain copy.

#include <ATen/core/Tensor.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "weft/collectives/reduce_op.hpp"
#include "weft/core/view.hpp"

namespace weft::distributed {

/// How a reduction is carried out: the operation, and what the input is multiplied by before it (premultiplied sums).
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  at::Tensor factor{};  ///< undefined: none
};

/// @throws ValueError where torch's operation of such elements is none of weft's
Reduction reduction_of(const char* operation, const c10d::ReduceOp& op, at::ScalarType type);

/// The elements, to be moved or reduced; bool and complex as said above. The tensor is contiguous.
View view_of(const at::Tensor& tensor);

/// @throws ValueError for a tensor that is sparse, quantized or nested, has no memory, or is on a device that this build does not know
void expect_dense(const char* operation, const at::Tensor& tensor);
/// The same of all, which must have one data type and device.
void expect_alike(const char* operation, const std::vector<at::Tensor>& tensors);
/// @throws ValueError for a tensor whose elements share memory, as one that was expanded: it cannot be written
void expect_writable(const char* operation, const at::Tensor& tensor);
void expect_writable(const char* operation, const std::vector<at::Tensor>& tensors);
/// @throws ValueError unless it is one tensor
const at::Tensor& the_one(const char* operation, const std::vector<at::Tensor>& tensors);

/// The tensor as it goes into a reduction: plain, and a copy that is multiplied for a premultiplied sum.
at::Tensor prepared(const at::Tensor& tensor, const Reduction& reduction);

/// Whether all have as many elements.
bool are_even(const std::vector<at::Tensor>& tensors);

}  // namespace weft::distributed
