#include "torch/libtorch/gradient_hooks.hpp"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_set>

namespace weft::torch::detail {
namespace {

std::int64_t aligned_bytes(const at::Tensor& tensor) {
  return (static_cast<std::int64_t>(tensor.nbytes()) + 15) / 16 * 16;
}

/// A tensor over some memory, and how often views among those that are looked at keep it.
struct OverIt {
  const at::Tensor* tensor;
  bool is_given;
  std::size_t kept = 0;
};

void look_at(const at::Tensor& tensor, bool is_given, std::vector<OverIt>& all) {
  const auto known =
      std::ranges::find_if(all, [&](const OverIt& one) { return one.tensor->is_same(tensor); });
  if (known == all.end()) {
    all.push_back({&tensor, is_given, is_given ? 0U : 1U});
  } else if (!is_given) {
    ++known->kept;
  }
}

/// Whether no other tensor shares the gradient's memory. Those of two parameters may, such as those of a sum. The
/// engine still has what it handed to the accumulation, of which the gradient is a view, and a view keeps the
/// tensor that it is of.
bool is_alone(const at::Tensor& gradient, const std::vector<at::Tensor>& incoming) {
  const auto* const storage = gradient.storage().unsafeGetStorageImpl();
  std::vector<OverIt> all;
  look_at(gradient, true, all);
  for (const at::Tensor& one : incoming) {
    if (one.defined() && one.layout() == c10::kStrided && one.storage().unsafeGetStorageImpl() == storage)
      look_at(one, true, all);
  }
  for (std::size_t i = 0, given = all.size(); i < given; ++i) {
    const auto* const views = ::torch::autograd::impl::get_view_autograd_meta(*all[i].tensor);
    if (views == nullptr) continue;
    if (views->has_bw_view()) look_at(views->get_backward_view().base_, false, all);
    if (views->has_fw_view() && !views->shared_view_info())
      look_at(views->get_forward_view().base_, false, all);
  }
  const bool all_known = static_cast<std::size_t>(gradient.storage().use_count()) == all.size();
  return all_known && std::ranges::all_of(all, [](const OverIt& one) {
           return one.is_given || static_cast<std::size_t>(one.tensor->use_count()) == one.kept;
         });
}

}  // namespace

void refuse(const Communicator& comm, const char* call, const std::string& problem,
            const std::string& advice) {
  const weft::Error error(ErrorKind::usage, problem, advice, {comm.rank(), call, 0});
  Communicator(comm).give_up(error);
  throw Error(error);
}

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

/// What torch calls when a gradient is accumulated.
class GradientHooks::Hook final : public ::torch::autograd::FunctionPostHook {
 public:
  Hook(GradientHooks& hooks, ParamId id) : hooks_(hooks), id_(id) {}
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

GradientHooks::GradientHooks(Communicator comm, ::torch::nn::Module& module, const char* call)
    : comm_(std::move(comm)),
      module_(module),
      call_(call),
      known_(known(module)),
      layout_(layout_of_parameters()),
      marked_(parameters_.size()) {}

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
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<ParamSpec> specs;
  std::string first;
  for (const auto& item : module_.named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (!parameter.requires_grad() || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    if (first.empty()) first = item.key();
    if (parameter.layout() != c10::kStrided)
      refuse(comm_, call_, text("parameter ", item.key(), " is not dense"), "train dense parameters");
    if (!parameter.device().is_cpu() || !comm_.device().is_host())
      refuse(comm_, call_,
             text("parameter ", item.key(), " is on ", parameter.device().str(), " and the communicator on ",
                  comm_.device()),
             "train on the CPU: this adapter reduces gradients in host memory");
    const at::Tensor& before = parameters_.empty() ? parameter : parameters_.front();
    if (parameter.scalar_type() != before.scalar_type())
      refuse(comm_, call_,
             text("parameter ", first, " is ", c10::toString(before.scalar_type()), " and ", item.key(), " ",
                  c10::toString(parameter.scalar_type())),
             "give all trainable parameters one type, or freeze those of the other");
    parameters_.push_back(parameter);
    specs.push_back({item.key(), parameter.numel(), parameter.data_ptr(), parameter.sizes().vec()});
  }
  if (parameters_.empty())
    refuse(comm_, call_,
           known_.empty() ? std::string("the module has no parameters")
                          : text("all ", known_.size(), " parameters of the module are frozen"),
           "wrap a module that has parameters with requires_grad");
  return with_torch_errors([&] {
    return ParamLayout(data_type(comm_, parameters_.front().scalar_type(), first), std::move(specs));
  });
}

void GradientHooks::hook() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // The parameter keeps its node weakly; where this one went, so would the hook.
    const auto node = ::torch::autograd::impl::grad_accumulator(parameters_[i]);
    const auto key =
        node->add_post_hook(std::make_unique<Hook>(*this, ParamId{static_cast<std::int32_t>(i)}));
    removals_.emplace_back([node, key] { node->del_post_hook(key); });
    // A conversion (module.to(kDouble)) gives the parameter another node, which has no hook of ours. This one stays
    // with the parameter, and says so.
    const auto guard = parameters_[i].register_hook([this, i, own = node.get()](const at::Tensor&) {
      if (handing_over_ && ::torch::autograd::impl::grad_accumulator(parameters_[i]).get() != own)
        refuse(comm_, call_,
               text("parameter ", layout_.name(ParamId{static_cast<std::int32_t>(i)}),
                    " was converted to another type or device after the module was wrapped"),
               "convert a module before it is wrapped");
    });
    removals_.emplace_back([this, i, guard] { parameters_[i].remove_hook(guard); });
  }
}

void GradientHooks::unhook() noexcept {
  for (const auto& remove : removals_) remove();
  removals_.clear();
}

void GradientHooks::on_gradient(ParamId id, const std::vector<at::Tensor>& incoming) {
  if (!handing_over_) return;
  with_torch_errors([&] {
    if (!in_pass_) begin_pass();
    expect_gradient(id);
    marked_[index(id)] = true;
    ready(id, is_alone(parameters_[index(id)].grad(), incoming));
  });
}

void GradientHooks::begin_pass() {
  expect_unchanged();
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
      ready(id, is_alone(parameters_[i].grad(), {}));
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
  if (gradient.numel() != layout_.count(id))
    refuse_it(text("has ", gradient.numel(), " elements, and the parameter had ", layout_.count(id),
                   " when the module was wrapped"),
              "change the module before it is wrapped");
}

// Price: a walk over the modules in each step.
void GradientHooks::expect_unchanged() {
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

// Tensors go as bytes: buffers have types that weft has no sums for, such as bool.
void GradientHooks::sync_initial_values(InitialValues how) {
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
void GradientHooks::broadcast_buffers(Stream compute) {
  if (comm_.size() == 1) return;
  std::vector<at::Tensor> buffers;
  std::int64_t bytes = 0;
  for (const at::Tensor& buffer : module_.buffers()) {
    if (!buffer.defined() || buffer.numel() == 0) continue;
    buffers.push_back(buffer.detach());
    bytes += aligned_bytes(buffer);
  }
  if (bytes == 0) return;
  if (buffers_.count() != bytes) buffers_ = comm_.allocate(DataType::u8, bytes);
  const at::NoGradGuard no_graph;
  const auto for_each = [&](const auto& move) {
    std::byte* at = buffers_.view().bytes();
    for (at::Tensor& buffer : buffers) {
      at::Tensor place = at::from_blob(at, buffer.sizes(), buffer.options());
      move(buffer, place);
      at += aligned_bytes(buffer);
    }
  };
  if (comm_.rank() == 0) for_each([](at::Tensor& buffer, at::Tensor& place) { place.copy_(buffer); });
  comm_.broadcast(buffers_.view(), 0, compute);
  compute.synchronize();
  if (comm_.rank() != 0) for_each([](at::Tensor& buffer, at::Tensor& place) { buffer.copy_(place); });
}

NoSync GradientHooks::no_sync() {
  if (!handing_over_) refuse(comm_, call_, "no_sync() while another one lives", "end its scope first");
  handing_over_ = false;
  return NoSync([this] { handing_over_ = true; });
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
