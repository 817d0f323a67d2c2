#pragma once
// The trainable parameters of a module, and a hook on each of them that runs when backward has accumulated its
// gradient.
//
// A backward pass is one step. Its first hook calls begin(), every hook calls ready(), and when the engine has
// finished the pass it calls finish(). Parameters that the pass did not reach, but that have a gradient from
// before (of a pass under no_sync), are ready then. All of it happens on the thread that called backward().
//
// The hooks are post hooks of AccumulateGrad nodes, as those of DDP's reducer are: the one kind that LibTorch
// has had from 1.13 to today. A module must outlive them.

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

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

class GradientHooks {
 public:
  /// @param call what error messages name. @throws Error (usage) for a module that cannot be trained so
  GradientHooks(Communicator comm, ::torch::nn::Module& module, const char* call);
  virtual ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  const ParamLayout& layout() const { return layout_; }
  Communicator& comm() { return comm_; }
  ::torch::nn::Module& module() { return module_; }
  at::Tensor& parameter(ParamId id) { return parameters_[index(id)]; }
  /// While it lives, passes accumulate in `.grad` and nothing is handed over.
  NoSync no_sync();
  /// All ranks get the parameters, frozen ones too, and the buffers of rank 0, or compare them.
  void sync_initial_values(InitialValues how);
  /// All ranks get the buffers of rank 0. Blocks.
  void broadcast_buffers(Stream compute);
  /// A place in `memory` that a parameter, or its gradient, can have: a tensor of its shape and strides.
  at::Tensor tensor_over(ParamId id, const View& memory, std::shared_ptr<const void> owner) const;

 protected:
  virtual void begin() = 0;
  /// The gradient is dense, and has the type and the shape of the parameter.
  /// @param alone no other tensor shares its memory
  virtual void ready(ParamId id, bool alone) = 0;
  /// @param without parameters that have no gradient on this rank
  virtual void finish(const std::vector<ParamId>& without) = 0;
  /// Hooks run from then on: the last call of a constructor. unhook() is the first of a destructor.
  void hook();
  void unhook() noexcept;

 private:
  class Hook;
  class Pass;
  struct Known {
    std::string name;
    const c10::TensorImpl* tensor;
    bool trained;
    friend bool operator==(const Known&, const Known&) = default;
  };

  static std::vector<Known> known(::torch::nn::Module& module);
  ParamLayout layout_of_parameters();
  void on_gradient(ParamId id, const std::vector<at::Tensor>& incoming);
  void begin_pass();
  void finish_pass();
  void expect_unchanged();
  void expect_gradient(ParamId id);

  Communicator comm_;
  ::torch::nn::Module& module_;
  const char* call_;
  std::vector<Known> known_;            // all parameters of the module
  std::vector<at::Tensor> parameters_;  // those that are trained
  ParamLayout layout_;
  std::vector<std::function<void()>> removals_;  // of hooks
  bool handing_over_ = true;
  bool in_pass_ = false;
  std::vector<bool> marked_;
  Buffer buffers_;  // the bytes of all of the module's buffers, one after the other
};

}  // namespace weft::torch::detail
