#include <mutex>
#include <unordered_map>

#include "torch/libtorch/gradient_hooks.hpp"

namespace weft::torch::detail {
namespace {

/// Whose each parameter is, by tensor: its memory may change, and detail of libweft.so is hidden. Never destroyed: a module of static storage may end after it.
struct Owners {
  std::mutex mutex;
  std::unordered_map<const c10::TensorImpl*, const char*> by_tensor;
};
Owners& owners() {
  static auto* const all = new Owners;
  return *all;
}

}  // namespace

Exchanged::Exchanged(const Communicator& comm, const ParamLayout& layout, std::vector<at::Tensor> tensors,
                     const char* call)
    : tensors_(std::move(tensors)) {
  std::string problem;
  {
    const std::lock_guard lock(owners().mutex);
    for (std::size_t i = 0; i < tensors_.size() && problem.empty(); ++i) {
      const auto other = owners().by_tensor.find(tensors_[i].unsafeGetTensorImpl());
      if (other == owners().by_tensor.end()) continue;
      problem = text("parameter ", layout.name(ParamId{static_cast<std::int32_t>(i)}), " belongs to another ",
                     other->second, " of this process, which still lives");
    }
    if (problem.empty()) {
      for (const at::Tensor& one : tensors_) owners().by_tensor.emplace(one.unsafeGetTensorImpl(), call);
    }
  }
  if (!problem.empty())
    refuse(comm, call, problem,
           "a parameter's gradient is averaged once: end the other one first, or wrap the module once");
}

Exchanged::~Exchanged() {
  const std::lock_guard lock(owners().mutex);
  for (const at::Tensor& one : tensors_) owners().by_tensor.erase(one.unsafeGetTensorImpl());
}

}  // namespace weft::torch::detail
