#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>

#include <unordered_set>

#include "torch/libtorch/gradient_hooks.hpp"
#include "torch/libtorch/module_walk.hpp"

namespace weft::torch::detail {
namespace {

std::int64_t aligned_bytes(const at::Tensor& tensor) {
  return (static_cast<std::int64_t>(tensor.nbytes()) + 15) / 16 * 16;
}

struct OwnedBuffer {
  at::Tensor values;
  bool is_statistic;  ///< of a normalization that trains: no backward reads it
};

std::vector<OwnedBuffer> owned_buffers(const ::torch::nn::Module& module) {
  std::vector<OwnedBuffer> all;
  walk(module, [&](const ::torch::nn::Module& part) {
    for (const auto& item : part.named_buffers(/*recurse=*/false)) {
      if (!item.value().defined() || item.value().numel() == 0) continue;
      const std::string& name = item.key();
      const bool is_named_so =
          name == "running_mean" || name == "running_var" || name == "num_batches_tracked";
      all.push_back({item.value().detach(), is_named_so && part.is_training()});
    }
    return true;
  });
  return all;
}

void take(OwnedBuffer& buffer, const at::Tensor& from_rank_0) {
  if (at::equal(buffer.values, from_rank_0)) return;
  if (!buffer.is_statistic) {
    buffer.values.copy_(from_rank_0);
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView unnoticed;
  buffer.values.copy_(from_rank_0);
}

}  // namespace

// Tensors go as bytes: buffers have types that weft has no sums for, such as bool.
void ModuleBuffers::sync_initial_values(InitialValues how) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<NamedValues> values;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // tensors that are not one piece of memory
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.numel() == 0 || !seen.insert(tensor.unsafeGetTensorImpl()).second) return;
    if (tensor.layout() != c10::kStrided || !tensor.device().is_cpu())
      refuse(comm_, call_, text(name, " is sparse, or on ", tensor.device().str()),
             "keep all tensors of the module dense and on the CPU");
    at::Tensor whole = tensor.detach();
    if (!whole.is_non_overlapping_and_dense()) {
      whole = whole.contiguous();
      copies.emplace_back(tensor.detach(), whole);
    }
    values.push_back({name, View(whole.data_ptr(), static_cast<std::int64_t>(whole.nbytes()), DataType::u8)});
  };
  for (const auto& item : module_.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module_.named_buffers()) add(item.key(), item.value());
  with_torch_errors([&] { weft::sync_initial_values(comm_, values, how); });
  const at::NoGradGuard no_graph;
  for (auto& [tensor, copy] : copies) tensor.copy_(copy);
}

// One broadcast of all of them as bytes: they are many and small.
void ModuleBuffers::broadcast(Stream compute) {
  if (comm_.size() == 1) return;
  std::vector<OwnedBuffer> buffers = owned_buffers(module_);
  std::int64_t bytes = 0;
  for (const OwnedBuffer& buffer : buffers) bytes += aligned_bytes(buffer.values);
  if (bytes == 0) return;
  if (bytes_.count() != bytes) bytes_ = comm_.allocate(DataType::u8, bytes);
  const at::NoGradGuard no_graph;
  const auto for_each = [&](const auto& move) {
    std::byte* at = bytes_.view().bytes();
    for (OwnedBuffer& buffer : buffers) {
      at::Tensor place = at::from_blob(at, buffer.values.sizes(), buffer.values.options());
      move(buffer, place);
      at += aligned_bytes(buffer.values);
    }
  };
  if (comm_.rank() == 0) for_each([](OwnedBuffer& buffer, at::Tensor& place) { place.copy_(buffer.values); });
  comm_.broadcast(bytes_.view(), 0, compute);
  compute.synchronize();
  if (comm_.rank() != 0) for_each(take);
}

}  // namespace weft::torch::detail
