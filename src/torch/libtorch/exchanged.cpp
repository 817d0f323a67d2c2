#include "torch/libtorch/gradient_hooks.hpp"

namespace weft::torch::detail {

Exchanged::Exchanged(const Communicator& comm, const ParamLayout& layout, std::vector<at::Tensor> tensors,
                     const char* call)
    : tensors_(std::move(tensors)) {
  std::vector<const void*> keys;
  for (const at::Tensor& one : tensors_) keys.push_back(one.unsafeGetTensorImpl());
  const auto other = claim_.take(keys, call);
  if (!other) return;
  const ParamId id{static_cast<std::int32_t>(other->key)};
  refuse(comm, call,
         text("parameter ", layout.name(id), " belongs to another ", other->owner,
              " of this process, which still lives"),
         "a parameter's gradient is averaged once: end the other one first, or wrap the module once");
}

}  // namespace weft::torch::detail
