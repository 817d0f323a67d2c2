// Tensors that are only marked as negated or conjugated, on their way through torch's dispatcher.
//
// For them the dispatcher gives an operation copies, and takes the results back where the operation's schema says what it writes. Those of c10d do not
// say it, so that results were lost. Here they reach weft as they are, which resolves them itself (tensor_memory.hpp). Other backends of
// the same process get copies, as before.

#include <ATen/ATen.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "torch/distributed/backend.hpp"

namespace weft::distributed {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Whether weft carries out the operation with these arguments.
bool is_for_weft(const c10::OperatorHandle& operation, const torch::jit::Stack& stack) {
  const std::size_t count = operation.schema().arguments().size();
  for (const c10::IValue& argument : torch::jit::last(stack, count)) {
    if (!argument.isCustomClass()) continue;
    const auto group = argument.toCustomClass<c10d::ProcessGroup>();
    try {
      return dynamic_cast<TorchBackend*>(group->getBackend(c10::DeviceType::CPU).get()) != nullptr;
    } catch (const c10::Error&) {  // it has none for the host
      return false;
    }
  }
  return false;
}

at::Tensor resolved(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.resolve_conj().resolve_neg() : tensor;
}

void resolve(const c10::OperatorHandle& operation, torch::jit::Stack& stack) {
  const std::size_t count = operation.schema().arguments().size();
  for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
    c10::IValue& argument = stack[i];
    if (argument.isTensor()) {
      argument = resolved(argument.toTensor());
    } else if (argument.isTensorList()) {
      c10::List<at::Tensor> all;
      for (const at::Tensor& tensor : argument.toTensorVector()) all.push_back(resolved(tensor));
      argument = std::move(all);
    }
  }
}

template <c10::DispatchKey key>
void pass_on(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!is_for_weft(operation, *stack)) resolve(operation, *stack);
  operation.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), stack);
}

template <c10::DispatchKey key>
void add(torch::Library& library) {
  for (const char* name :
       {"allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_", "allgather_", "_allgather_base_",
        "allgather_coalesced_", "allgather_into_tensor_coalesced_", "reduce_scatter_",
        "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_", "gather_", "gather_into_tensor_",
        "scatter_", "alltoall_", "alltoall_base_", "send", "recv_", "recv_any_source_"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&pass_on<key>>());
}

TORCH_LIBRARY_IMPL(c10d, Negative, library) {
  add<c10::DispatchKey::Negative>(library);
}

TORCH_LIBRARY_IMPL(c10d, Conjugate, library) {
  add<c10::DispatchKey::Conjugate>(library);
}

}  // namespace
}  // namespace weft::distributed
