#pragma once
// What `.grad` is while weft keeps the gradient of a parameter: a tensor of its shape and without values.
//
// Every operation on it, such as those of clip_grad_norm_, is an Error that says where the gradient is. An undefined
// `.grad` would let them do nothing, silently. zero_grad() takes it away (LibTorch 2), or marks it as dropped (1.13).
// It takes no memory. To have operations come here it has a dispatch key that nothing of torch's uses, PrivateUse3;
// weft's kernel for that key is registered once a process.

#include <ATen/core/Tensor.h>

#include <string>

namespace weft::torch::detail {

/// @param name of the parameter @param rank of this process
at::Tensor kept_gradient(const at::Tensor& gradient, const std::string& name, int rank);
/// Whether `.grad` is such a tensor, which is not dropped.
bool is_kept_gradient(const at::Tensor& gradient);
/// Whether `.grad` is such a tensor.
bool was_kept_gradient(const at::Tensor& gradient);

}  // namespace weft::torch::detail
