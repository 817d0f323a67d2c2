#include "torch/libtorch/kept_gradient.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/TensorImpl.h>
#include <torch/library.h>

#include <mutex>
#include <string>

#include "weft/torch/error.hpp"

namespace weft::torch::detail {
namespace {

constexpr auto own_key = c10::DispatchKey::PrivateUse3;

class KeptGradient final : public c10::TensorImpl {
 public:
  KeptGradient(const at::Tensor& like, std::string name, int rank)
      : c10::TensorImpl(c10::DispatchKeySet(own_key), like.dtype(), like.device()),
        name_(std::move(name)),
        rank_(rank) {
    key_set_ = c10::DispatchKeySet(own_key);  // no autograd: operations come here first
    set_sizes_and_strides(like.sizes(), like.strides());
  }
  KeptGradient(const KeptGradient& other)
      : c10::TensorImpl(c10::DispatchKeySet(own_key), other.dtype(), other.device()),
        name_(other.name_),
        rank_(other.rank_),
        is_dropped_(other.is_dropped_) {
    key_set_ = c10::DispatchKeySet(own_key);
    set_sizes_and_strides(other.sizes(), other.strides());
  }
  KeptGradient& operator=(const KeptGradient&) = delete;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  bool is_dropped() const { return is_dropped_; }
  void drop() { is_dropped_ = true; }

  // data() makes a copy, which has the same to say.
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& /*version*/,
                                                              bool /*changes*/) const override {
    return c10::make_intrusive<KeptGradient>(*this);
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& /*version*/,
                                                              bool /*changes*/) const override {
    return c10::make_intrusive<KeptGradient>(*this);
  }

 private:
  std::string name_;
  int rank_;
  bool is_dropped_ = false;
};

KeptGradient* kept(const at::Tensor& tensor) {
  return tensor.defined() ? dynamic_cast<KeptGradient*>(tensor.unsafeGetTensorImpl()) : nullptr;
}

/// Any operation with a tensor of own_key.
void use(const c10::OperatorHandle& operation, ::torch::jit::Stack* stack) {
  const std::size_t count = operation.schema().arguments().size();
  KeptGradient* found = nullptr;
  for (const c10::IValue& argument : ::torch::jit::last(*stack, count)) {
    if (found != nullptr) break;
    if (argument.isTensor()) {
      found = kept(argument.toTensor());
    } else if (argument.isTensorList()) {
      for (const at::Tensor& one : argument.toTensorVector()) found = found != nullptr ? found : kept(one);
    }
  }
  const std::string& name = operation.schema().name();
  if (found != nullptr && (name == "aten::zero_" || name == "aten::detach_")) {  // by zero_grad()
    if (name == "aten::zero_") found->drop();
    return;  // its argument is its result
  }
  if (found != nullptr && (name == "aten::detach" || name == "aten::alias")) {  // as data() does
    at::Tensor copy(c10::make_intrusive<KeptGradient>(*found));
    ::torch::jit::drop(*stack, count);
    stack->emplace_back(std::move(copy));
    return;
  }
  throw Error(weft::Error(
      ErrorKind::usage,
      text(name, " of the gradient of ", found != nullptr ? found->name() : std::string("a parameter"),
           ", which ZeroOptimizer keeps: its '.grad' has no values"),
      "give ZeroOptions::clip_norm instead of clip_grad_norm_(); for anything else that reads or changes "
      "gradients take DataParallel and torch's optimizer",
      {found != nullptr ? found->rank() : -1, "ZeroOptimizer", 0}));
}

// The fallback serves operations that have a kernel for each backend. Others have one for all backends, which would look at
// memory itself: they get this one.
void serve_key() {
  static std::once_flag once;
  std::call_once(once, [] {
    static ::torch::Library all(::torch::Library::IMPL, "_", own_key, __FILE__, __LINE__);
    all.fallback(::torch::CppFunction::makeFromBoxedFunction<&use>());
    static ::torch::Library some(::torch::Library::IMPL, "aten", own_key, __FILE__, __LINE__);
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      const auto operation = dispatcher.findSchema(name);
      if (name.name.rfind("aten::", 0) != 0 || !operation) continue;
      const bool is_for_all =
          operation->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
          operation->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
      if (!is_for_all) continue;
      const std::string overload = name.overload_name.empty() ? "" : "." + name.overload_name;
      some.impl((name.name.substr(6) + overload).c_str(),
                ::torch::CppFunction::makeFromBoxedFunction<&use>());
    }
  });
}

}  // namespace

at::Tensor kept_gradient(const at::Tensor& gradient, const std::string& name, int rank) {
  serve_key();
  return at::Tensor(c10::make_intrusive<KeptGradient>(gradient, name, rank));
}

bool is_kept_gradient(const at::Tensor& gradient) {
  const KeptGradient* const one = kept(gradient);
  return one != nullptr && !one->is_dropped();
}

bool was_kept_gradient(const at::Tensor& gradient) {
  return kept(gradient) != nullptr;
}

}  // namespace weft::torch::detail
