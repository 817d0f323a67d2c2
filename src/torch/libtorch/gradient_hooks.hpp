#pragma once
// The trainable parameters of a module, and hooks on each of them that run before and after backward accumulates its
// gradient.
//
// A backward pass is one step. Its first hook calls begin(), every hook calls ready(), and when the engine has
// finished the pass it calls finish(). Parameters that the pass did not reach, but that have a gradient from
// before (of a pass under no_sync), are ready then. All of it happens on the thread that called backward().
//
// The hooks are pre and post hooks of AccumulateGrad nodes, as those of DDP's reducer are: what LibTorch has had
// from 1.13 to today. torch::load() and conversions give a parameter another node, which gets hooks, too. A module
// must outlive them.

#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gradient/reducer/parameter_claim.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/gradient/initial_values.hpp"
#include "weft/gradient/param_layout.hpp"
#include "weft/torch/data_parallel.hpp"

namespace weft::torch::detail {

/// Runs `body`; an Error of weft leaves it as one of weft::torch.
template <class Body>
decltype(auto) with_torch_errors(Body&& body) {
  try {
    return body();
  } catch (const weft::Error& error) {
    throw Error(error);
  }
}

/// Throws Error (usage), and tells the other ranks why this one does not go on.
[[noreturn]] void refuse(const Communicator& comm, const char* call, const std::string& problem,
                         const std::string& advice);

/// weft's name of the type. @throws Error (usage) where weft has none
DataType data_type(const Communicator& comm, c10::ScalarType type, const std::string& name);
/// The elements of a dense tensor in the order of its memory.
View view(at::Tensor& tensor, DataType dtype);
/// The parameters that are trained, each once, without those that have no elements.
std::vector<std::pair<std::string, at::Tensor>> trained(const ::torch::nn::Module& module);

/// The values of a module that are not reduced: parameters as ranks start with them, and buffers such as running means.
class ModuleBuffers {
 public:
  ModuleBuffers(Communicator comm, ::torch::nn::Module& module, const char* call)
      : comm_(std::move(comm)), module_(module), call_(call) {}

  /// All ranks get the parameters, frozen ones too, and the buffers of rank 0, or compare them.
  void sync_initial_values(InitialValues how);
  /// All ranks get the buffers of rank 0. Blocks. Only buffers that differ are written to. Graphs of other forward
  /// passes may hold them: those of batch norm in training, which their backward does not read, are written as batch
  /// norm writes them, without torch's notice of a change in place.
  void broadcast(Stream compute);

 private:
  Communicator comm_;
  ::torch::nn::Module& module_;
  const char* call_;
  Buffer bytes_;  // of all of the module's buffers, one after the other
};

/// Whether no other tensor shares the gradient's memory. @param incoming what the engine handed to the accumulation
bool is_alone(const at::Tensor& gradient, const std::vector<at::Tensor>& incoming);

/// What else may refer to a gradient.
struct Holders {
  bool alone;   ///< no other tensor shares its memory
  bool before;  ///< it was in `.grad` before the pass
  bool kept;    ///< and the program holds it, or memory of it, elsewhere
};

class GradientHooks {
 public:
  /// @param call what error messages name. @throws Error (usage) for a module that cannot be trained so
  GradientHooks(Communicator comm, ::torch::nn::Module& module, const char* call);
  virtual ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  const ParamLayout& layout() const { return layout_; }
  Communicator& comm() { return comm_; }
  at::Tensor& parameter(ParamId id) { return parameters_[index(id)]; }
  /// While it lives, passes accumulate in `.grad` and nothing is handed over.
  NoSync no_sync();
  ModuleBuffers& buffers() { return buffers_; }
  /// A place in `memory` that a parameter, or its gradient, can have: a tensor of its shape and strides.
  at::Tensor tensor_over(ParamId id, const View& memory, std::shared_ptr<const void> owner) const;

 protected:
  /// Before a pass adds to the gradient.
  virtual void before(ParamId /*id*/) {}
  virtual void begin() = 0;
  /// The gradient is dense, and has the type and the shape of the parameter.
  virtual void ready(ParamId id, Holders holders) = 0;
  /// @param without parameters that have no gradient on this rank
  virtual void finish(const std::vector<ParamId>& without) = 0;
  /// Hooks run from then on: the last call of a constructor. unhook() is the first of a destructor.
  void hook();
  void unhook() noexcept;
  /// Whether the program holds the gradient, or memory of it, beside `.grad`.
  bool is_held(ParamId id) const;
  bool hands_over() const { return *handing_over_; }

 private:
  class Before;
  class After;
  class Pass;
  struct Known {
    std::string name;
    const c10::TensorImpl* tensor;
    bool trained;
    friend bool operator==(const Known&, const Known&) = default;
  };
  /// A shared or an intrusive pointer, as LibTorch's version has it.
  using NodePtr = decltype(::torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));
  /// The hooks of one parameter.
  struct Hooked {
    NodePtr node;  // which the parameter keeps weakly: its hooks would go with it
    const void* before = nullptr;
    std::uintptr_t after = 0;
    unsigned guard = 0;
  };

  static std::vector<Known> known(::torch::nn::Module& module);
  ParamLayout layout_of_parameters();
  bool is_claimed() const;
  void claim();
  void hook_node(std::size_t parameter);
  void unhook_node(std::size_t parameter);
  void expect_same_kind(std::size_t parameter);
  void on_gradient(ParamId id, const std::vector<at::Tensor>& incoming);
  void begin_pass();
  void finish_pass();
  bool is_unchanged() const;
  void expect_unchanged();
  void expect_gradient(ParamId id);
  Holders holders(ParamId id, const std::vector<at::Tensor>& incoming) const;

  Communicator comm_;
  ::torch::nn::Module& module_;
  const char* call_;
  std::vector<Known> known_;            // all parameters of the module
  std::vector<at::Tensor> parameters_;  // those that are exchanged
  ParamLayout layout_;
  std::vector<c10::Storage> memory_;  // of parameters, as claimed: what comes there later is another's
  std::vector<const void*> keys_;
  weft::detail::ParameterClaim claim_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<Hooked> hooked_;
  std::shared_ptr<bool> handing_over_ = std::make_shared<bool>(true);  // NoSync may outlive this
  bool in_pass_ = false;
  std::vector<bool> marked_;
  std::vector<const c10::TensorImpl*> had_;  // what `.grad` was before this pass; null where none
  ModuleBuffers buffers_;
};

}  // namespace weft::torch::detail
