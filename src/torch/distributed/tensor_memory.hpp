#pragma once
// Where the elements of a call's tensors lie while they are exchanged.
//
// That is the tensor's own memory, if it has its elements there one behind the other as they are, and a plain copy otherwise. Where tensors of one
// call share memory, each input has its values of the call, and results are written in the order of the lists: what is written while
// another tensor is exchanged lies apart, and is copied to its place at the end. Tensors that are apart cost a comparison of addresses.

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft::distributed {

/// The tensor in memory that has its elements one behind the other, as they are: itself, or a copy.
at::Tensor plain(const at::Tensor& tensor);
std::vector<at::Tensor> plain(const std::vector<at::Tensor>& tensors);
/// Places of plain memory, which are written while the others are, and while sources are read: one that shares memory with another of them becomes
/// a copy. @param part of collectives in place, as where the i-th source is this part of the i-th place, or the other way round; < 0: none is
void separate(std::vector<at::Tensor>& places, const std::vector<at::Tensor>& sources, int part = -1);
/// The same of one place and one source.
at::Tensor separated(const at::Tensor& place, const at::Tensor& source, int part = -1);

/// One-dimensional contiguous memory, which is not zeroed.
at::Tensor scratch_like(const at::Tensor& tensor, std::int64_t count);
/// If the tensors lie one behind the other, as the parts of one do, that one; else undefined.
at::Tensor adjacent(const std::vector<at::Tensor>& tensors);
/// Copies the elements; of the same number, in order of their indices.
void copy_elements(const at::Tensor& to, const at::Tensor& from);

}  // namespace weft::distributed
