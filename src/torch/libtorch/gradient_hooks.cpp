#include "torch/libtorch/gradient_hooks.hpp"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <algorithm>
#include <unordered_set>

#include "torch/libtorch/freed_memory.hpp"
#include "torch/libtorch/module_walk.hpp"

namespace weft::torch::detail {
void refuse(const Communicator& comm, const char* call, const std::string& problem,
            const std::string& advice) {
  const weft::Error error(ErrorKind::usage, problem, advice, {comm.rank(), call, 0});
  Communicator(comm).give_up(error);
  throw Error(error);
}

namespace {

const void* key_of_memory(const at::Tensor& parameter) {
  return parameter.has_storage() ? parameter.data_ptr() : nullptr;
}

}  // namespace

DataType data_type(const Communicator& comm, c10::ScalarType type, const std::string& name) {
  switch (type) {
    case c10::kFloat:
      return DataType::f32;
    case c10::kDouble:
      return DataType::f64;
    case c10::kHalf:
      return DataType::f16;
    case c10::kBFloat16:
      return DataType::bf16;
    default:
      refuse(comm, "data_type", text("parameter ", name, " is of type ", c10::toString(type)),
             "Float, Double, Half and BFloat16 can be trained");
  }
}

View view(at::Tensor& tensor, DataType dtype) {
  return View(tensor.data_ptr(), tensor.numel(), dtype);
}

/// What torch calls before a gradient is accumulated, where it is: autograd::grad() does not get here.
class GradientHooks::Before final : public ::torch::autograd::FunctionPreHook {
 public:
  Before(GradientHooks& hooks, ParamId id) : hooks_(hooks), id_(id) {}
  ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& gradients) override {
    hooks_.before(id_);
    const at::Tensor& had = hooks_.parameters_[index(id_)].grad();
    hooks_.had_[index(id_)] = had.defined() ? had.unsafeGetTensorImpl() : nullptr;
    return gradients;
  }

 private:
  GradientHooks& hooks_;
  ParamId id_;
};

/// What torch calls when it has been.
class GradientHooks::After final : public ::torch::autograd::FunctionPostHook {
 public:
  After(GradientHooks& hooks, ParamId id) : hooks_(hooks), id_(id) {}
  ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& outputs,
                                              const ::torch::autograd::variable_list& inputs) override {
    hooks_.on_gradient(id_, inputs);
    return outputs;
  }

 private:
  GradientHooks& hooks_;
  ParamId id_;
};

/// A backward pass, which the engine's queue of calls keeps. Where the pass ends with an exception the queue
/// goes unused: the others wait for gradients that never come, and are told.
class GradientHooks::Pass {
 public:
  explicit Pass(GradientHooks& hooks) : hooks_(&hooks) {}
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  ~Pass() {
    if (hooks_ == nullptr) return;
    hooks_->in_pass_ = false;
    hooks_->comm_.give_up(weft::Error(
        ErrorKind::usage, "backward ended with an exception before its step was finished",
        "see what it threw on this rank; connect anew to go on", {hooks_->comm_.rank(), hooks_->call_, 0}));
  }
  void finish() {
    hooks_->finish_pass();
    hooks_ = nullptr;
  }

 private:
  GradientHooks* hooks_;
};

std::vector<std::pair<std::string, at::Tensor>> trained(const ::torch::nn::Module& module) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (parameter.requires_grad() && parameter.numel() > 0 &&
        seen.insert(parameter.unsafeGetTensorImpl()).second)
      all.emplace_back(item.key(), parameter);
  }
  return all;
}

GradientHooks::GradientHooks(Communicator comm, ::torch::nn::Module& module, const char* call)
    : comm_(std::move(comm)),
      module_(module),
      call_(call),
      known_(known(module)),
      layout_(layout_of_parameters()),
      hooked_(parameters_.size()),
      marked_(parameters_.size()),
      had_(parameters_.size()),
      buffers_(comm_, module, call) {
  for (const at::Tensor& one : parameters_) shapes_.push_back(one.sizes().vec());
  claim();
  keep_freed_memory();
}

GradientHooks::~GradientHooks() {
  unhook();
}

std::vector<GradientHooks::Known> GradientHooks::known(::torch::nn::Module& module) {
  std::vector<Known> all;
  for (const auto& item : module.named_parameters())
    all.push_back({item.key(), item.value().unsafeGetTensorImpl(), item.value().requires_grad()});
  return all;
}

// Parameters that two layers share stand once, under their first name.
ParamLayout GradientHooks::layout_of_parameters() {
  std::vector<ParamSpec> specs;
  const auto all = trained(module_);
  for (const auto& [name, parameter] : all) {
    if (parameter.layout() != c10::kStrided)
      refuse(comm_, call_, text("parameter ", name, " is not dense"), "train dense parameters");
    if (!parameter.device().is_cpu() || !comm_.device().is_host())
      refuse(comm_, call_,
             text("parameter ", name, " is on ", parameter.device().str(), " and the communicator on ",
                  comm_.device()),
             "train on the CPU: this adapter reduces gradients in host memory");
    const auto& [first, before] = all.front();
    if (parameter.scalar_type() != before.scalar_type())
      refuse(comm_, call_,
             text("parameter ", first, " is ", c10::toString(before.scalar_type()), " and ", name, " ",
                  c10::toString(parameter.scalar_type())),
             "give all trainable parameters one type, or freeze those of the other");
    parameters_.push_back(parameter);
    specs.push_back({name, parameter.numel(), parameter.data_ptr(), parameter.sizes().vec()});
  }
  if (parameters_.empty())
    refuse(comm_, call_,
           known_.empty()
               ? std::string("the module has no parameters")
               : text("all ", known_.size(), " parameters of the module are frozen or have no elements"),
           "wrap a module that has parameters with requires_grad");
  return with_torch_errors([&] {
    const DataType dtype = data_type(comm_, parameters_.front().scalar_type(), all.front().first);
    return ParamLayout(dtype, std::move(specs)).without_storages();  // claim() has them
  });
}

bool GradientHooks::is_claimed() const {
  const std::size_t count = parameters_.size();
  if (keys_.size() != 2 * count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (key_of_memory(parameters_[i]) != keys_[count + i]) return false;
  }
  return true;
}

// By tensor, which another wrapper sees at once, and by memory, which a reducer of the program's own knows. torch::load() and
// set_data() give a parameter other memory: that is claimed with the next pass.
void GradientHooks::claim() {
  if (is_claimed()) return;
  std::vector<const void*> keys;
  std::vector<c10::Storage> memory;
  for (const at::Tensor& one : parameters_) keys.push_back(one.unsafeGetTensorImpl());
  for (const at::Tensor& one : parameters_) {
    keys.push_back(key_of_memory(one));
    if (one.has_storage()) memory.push_back(one.storage());
  }
  with_torch_errors([&] { claim_.take(keys, layout_, comm_, call_); });
  keys_ = std::move(keys);
  memory_ = std::move(memory);
}

void GradientHooks::hook() {
  claim();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    hook_node(i);
    // torch::load() and conversions give the parameter another node. This hook stays with the parameter.
    hooked_[i].guard = parameters_[i].register_hook([this, i](const at::Tensor&) {
      if (::torch::autograd::impl::grad_accumulator(parameters_[i]) == hooked_[i].node) return;
      expect_same_kind(i);
      unhook_node(i);
      hook_node(i);
#if TORCH_VERSION_MAJOR < 2
      // Torch is in the new node by now, whose hooks run from the next pass on: the end of this one takes the gradient.
      if (hands_over() && !in_pass_) with_torch_errors([this] { begin_pass(); });
#endif
    });
  }
}

void GradientHooks::hook_node(std::size_t parameter) {
  Hooked& hooked = hooked_[parameter];
  const ParamId id{static_cast<std::int32_t>(parameter)};
  hooked.node = ::torch::autograd::impl::grad_accumulator(parameters_[parameter]);
  auto before = std::make_unique<Before>(*this, id);
  hooked.before = before.get();
  hooked.node->add_pre_hook(std::move(before));
  hooked.after = hooked.node->add_post_hook(std::make_unique<After>(*this, id));
}

void GradientHooks::unhook_node(std::size_t parameter) {
  Hooked& hooked = hooked_[parameter];
  if (!hooked.node) return;
  std::erase_if(hooked.node->pre_hooks(), [&](const auto& one) { return one.get() == hooked.before; });
  hooked.node->del_post_hook(hooked.after);
  hooked.node.reset();
}

void GradientHooks::expect_same_kind(std::size_t parameter) {
  const at::Tensor& now = parameters_[parameter];
  const std::string& name = layout_.name(ParamId{static_cast<std::int32_t>(parameter)});
  if (now.device().is_cpu() && now.layout() == c10::kStrided &&
      data_type(comm_, now.scalar_type(), name) == layout_.dtype())
    return;
  refuse(comm_, call_,
         text("parameter ", name, " was converted to another type or device after the module was wrapped"),
         "convert a module before it is wrapped");
}

void GradientHooks::unhook() noexcept {
  for (std::size_t i = 0; i < hooked_.size(); ++i) {
    if (!hooked_[i].node) continue;
    parameters_[i].remove_hook(hooked_[i].guard);
    unhook_node(i);
  }
}

void GradientHooks::on_gradient(ParamId id, const std::vector<at::Tensor>& incoming) {
  if (!hands_over()) return;
  with_torch_errors([&] {
    if (!in_pass_) begin_pass();
    expect_gradient(id);
    marked_[index(id)] = true;
    ready(id, holders(id, incoming));
  });
}

Holders GradientHooks::holders(ParamId id, const std::vector<at::Tensor>& incoming) const {
  const at::Tensor& gradient = parameters_[index(id)].grad();
  const bool alone = is_alone(gradient, incoming);
  const bool was_there = had_[index(id)] == gradient.unsafeGetTensorImpl();
  return {.alone = alone, .before = was_there, .kept = was_there && (!alone || gradient.use_count() > 1)};
}

bool GradientHooks::is_held(ParamId id) const {
  const at::Tensor& gradient = parameters_[index(id)].grad();
  return gradient.defined() && (gradient.use_count() > 1 || !is_alone(gradient, {}));
}

void GradientHooks::begin_pass() {
  expect_unchanged();
  claim();
  std::fill(marked_.begin(), marked_.end(), false);
  begin();
  in_pass_ = true;
  ::torch::autograd::Engine::get_default_engine().queue_callback(
      [pass = std::make_shared<Pass>(*this)] { pass->finish(); });
}

void GradientHooks::finish_pass() {
  with_torch_errors([&] {
    std::vector<ParamId> without;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const ParamId id{static_cast<std::int32_t>(i)};
      if (marked_[i]) continue;
      if (!parameters_[i].grad().defined()) {
        without.push_back(id);
        continue;
      }
      expect_gradient(id);
      had_[i] = parameters_[i].grad().unsafeGetTensorImpl();
      ready(id, holders(id, {}));
    }
    finish(without);
    in_pass_ = false;
  });
}

void GradientHooks::expect_gradient(ParamId id) {
  const at::Tensor& gradient = parameters_[index(id)].grad();
  const auto refuse_it = [&](const std::string& problem, const std::string& advice) {
    refuse(comm_, call_, text("the gradient of ", layout_.name(id), " ", problem), advice);
  };
  if (gradient.layout() != c10::kStrided)
    refuse_it("is sparse", "make it dense: EmbeddingOptions::sparse(false)");
  if (gradient.sizes() != shapes_[index(id)])
    refuse_it(text("has the shape ", gradient.sizes(), ", and the parameter had ",
                   at::IntArrayRef(shapes_[index(id)]), " when the module was wrapped"),
              "change the module before it is wrapped");
  if (gradient.requires_grad())
    refuse_it("has a graph (create_graph), and the mean over ranks would have none",
              "get gradients of gradients with torch::autograd::grad(), which leaves '.grad' alone, and call "
              "backward() of the loss that is made of them");
}

// Price: a walk over the modules in each step. The path to a module is not looked at where all of its parameters are those that they were.
bool GradientHooks::is_unchanged() const {
  std::size_t next = 0;
  const auto is_next = [&](const auto& item) {
    const at::Tensor& one = item.value();
    if (!one.defined()) return true;
    if (next == known_.size()) return false;
    const Known& before = known_[next++];
    return one.unsafeGetTensorImpl() == before.tensor && one.requires_grad() == before.trained &&
           before.name.ends_with(item.key());
  };
  const bool are_all_known = walk(module_, [&](const ::torch::nn::Module& one) {
    return std::ranges::all_of(own_parameters(one), is_next);
  });
  return are_all_known && next == known_.size();
}

void GradientHooks::expect_unchanged() {
  if (is_unchanged()) return;
  const std::vector<Known> now = known(module_);
  if (now == known_) return;
  const std::string advice = "make a new one of the module as it is";
  for (const Known& one : now) {
    const auto before = std::ranges::find(known_, one.name, &Known::name);
    if (before == known_.end())
      refuse(comm_, call_, text("parameter ", one.name, " was added after the module was wrapped"), advice);
    if (before->tensor != one.tensor)
      refuse(comm_, call_,
             text("parameter ", one.name, " is another tensor than when the module was wrapped"), advice);
    if (before->trained != one.trained)
      refuse(comm_, call_,
             text("parameter ", one.name, " was ", one.trained ? "unfrozen" : "frozen",
                  " after the module was wrapped"),
             advice);
  }
  for (const Known& one : known_) {
    if (std::ranges::find(now, one.name, &Known::name) == now.end())
      refuse(comm_, call_, text("parameter ", one.name, " was removed after the module was wrapped"), advice);
  }
}

NoSync GradientHooks::no_sync() {
  if (!hands_over()) refuse(comm_, call_, "no_sync() while another one lives", "end its scope first");
  *handing_over_ = false;
  return NoSync([handing_over = handing_over_] { *handing_over = true; });
}

at::Tensor GradientHooks::tensor_over(ParamId id, const View& memory,
                                      std::shared_ptr<const void> owner) const {
  const at::Tensor& parameter = parameters_[index(id)];
  const bool dense = parameter.is_non_overlapping_and_dense();
  const std::vector<std::int64_t> strides =
      dense ? parameter.strides().vec() : at::empty(parameter.sizes()).strides().vec();
  return at::from_blob(
      memory.data(), parameter.sizes(), strides, [owner = std::move(owner)](void*) {},
      parameter.options().requires_grad(false));
}

}  // namespace weft::torch::detail
