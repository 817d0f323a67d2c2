#include "weft/torch/zero_optimizer.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <array>
#include <unordered_set>

#include "torch/libtorch/gradient_hooks.hpp"

namespace weft::torch {
namespace {

constexpr const char* own_name = "ZeroOptimizer";

template <class Options>
zero::Optimizer adam_rule(const Communicator& comm, const Options& options, auto rule) {
  if (options.amsgrad())
    detail::refuse(comm, own_name, "amsgrad", "leave it out: weft keeps no largest moment");
  rule.learning_rate = options.lr();
  std::tie(rule.beta1, rule.beta2) = options.betas();
  rule.epsilon = options.eps();
  rule.weight_decay = options.weight_decay();
  return rule;
}

/// weft's rule for torch's options.
zero::Optimizer rule_of(const Communicator& comm, const ::torch::optim::OptimizerOptions& options) {
  if (const auto* adamw = dynamic_cast<const ::torch::optim::AdamWOptions*>(&options))
    return adam_rule(comm, *adamw, zero::AdamW{});
  if (const auto* adam = dynamic_cast<const ::torch::optim::AdamOptions*>(&options))
    return adam_rule(comm, *adam, zero::Adam{});
  const auto* sgd = dynamic_cast<const ::torch::optim::SGDOptions*>(&options);
  if (sgd == nullptr)
    detail::refuse(comm, own_name, "options that are not AdamWOptions, AdamOptions or SGDOptions",
                   "take one of these, or DataParallel and torch's optimizer");
  if (sgd->dampening() != 0 || sgd->nesterov())
    detail::refuse(comm, own_name,
                   text("SGD with dampening ", sgd->dampening(), " and nesterov ", sgd->nesterov()),
                   "weft has neither: take DataParallel and torch's optimizer");
  return zero::Sgd{
      .learning_rate = sgd->lr(), .momentum = sgd->momentum(), .weight_decay = sgd->weight_decay()};
}

/// All but the learning rate.
std::array<double, 4> constants_of(const zero::Optimizer& rule) {
  return std::visit(
      [](const auto& one) -> std::array<double, 4> {
        if constexpr (requires { one.momentum; }) {
          return {one.momentum, one.weight_decay, 0, 0};
        } else {
          return {one.beta1, one.beta2, one.epsilon, one.weight_decay};
        }
      },
      rule);
}

std::vector<at::Tensor> trained(const ::torch::nn::Module& module) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad() && seen.insert(parameter.unsafeGetTensorImpl()).second)
      all.push_back(parameter);
  }
  return all;
}

}  // namespace

class ZeroOptimizer::State final : public detail::GradientHooks {
 public:
  State(Communicator comm, ::torch::nn::Module& module, const ::torch::optim::OptimizerOptions& rule,
        const ZeroOptions& options);
  ~State() override { unhook(); }

  void step(const ::torch::optim::OptimizerOptions& rule);
  zero::ShardedOptimizer& optimizer() { return *optimizer_; }
  zero::ShardedParams& params() { return *params_; }

 protected:
  void begin() override;
  void ready(ParamId id, bool alone) override;
  void finish(const std::vector<ParamId>& without) override;

 private:
  void hand_over_gradient(ParamId id, ConstView gradient);
  void place_parameters();

  bool broadcasts_buffers_;
  zero::Optimizer rule_;
  Stream compute_;
  bool reduced_ = false;  // a pass has handed its gradients over, and step() has not been called
  std::shared_ptr<zero::ShardedParams> params_;  // parameters keep it, and with it their memory
  std::unique_ptr<zero::ShardedOptimizer> optimizer_;
};

ZeroOptimizer::State::State(Communicator comm, ::torch::nn::Module& module,
                            const ::torch::optim::OptimizerOptions& rule, const ZeroOptions& options)
    : GradientHooks(std::move(comm), module, own_name),
      broadcasts_buffers_(options.broadcast_buffers),
      rule_(rule_of(this->comm(), rule)) {
  if (options.stage != 1 && options.stage != 2)
    detail::refuse(this->comm(), own_name, text("stage ", options.stage),
                   "take 1 or 2: torch's modules need whole parameters");
  sync_initial_values(options.initial_values);
  detail::with_torch_errors([&] {
    params_ = std::make_shared<zero::ShardedParams>(
        this->comm(), layout(),
        zero::ShardedOptions{.stage = options.stage,
                             .hook = options.hook,
                             .bucket_bytes = options.bucket_bytes,
                             .bucket_ring_bytes = options.bucket_ring_bytes,
                             .wire = options.wire});
    place_parameters();
    optimizer_ = std::make_unique<zero::ShardedOptimizer>(
        *params_, rule_, zero::ShardedOptimizerOptions{.clip_norm = options.clip_norm});
  });
  hook();
}

void ZeroOptimizer::State::place_parameters() {
  const int count = layout().parameters();
  for (int i = 0; i < count; ++i) {
    at::Tensor values = parameter(ParamId{i}).detach();
    if (!values.is_non_overlapping_and_dense()) values = values.contiguous();
    params_->load(ParamId{i}, detail::view(values, layout().dtype()));
  }
  const zero::Gathered whole = params_->gather(0, compute_);
  for (int i = 0; i < count; ++i)
    parameter(ParamId{i}).set_data(tensor_over(ParamId{i}, whole[ParamId{i}], params_));
}

void ZeroOptimizer::State::begin() {
  if (reduced_)
    detail::refuse(comm(), own_name, "two backward passes before step()",
                   "run all passes of a step but the last under no_sync()");
  params_->begin_step();
}

void ZeroOptimizer::State::hand_over_gradient(ParamId id, ConstView gradient) {
  params_->reducer().mark_ready(id, gradient, compute_);
  if (!compute_.poll()) compute_.synchronize();  // the gradient's memory goes
}

void ZeroOptimizer::State::ready(ParamId id, bool /*alone*/) {
  at::Tensor& gradient = parameter(id).mutable_grad();
  const at::Tensor whole = parameter(id).detach();
  if (gradient.strides() != whole.strides()) {
    at::Tensor same = at::empty_like(whole);
    same.copy_(gradient.detach());
    hand_over_gradient(id, detail::view(same, layout().dtype()));
  } else {
    hand_over_gradient(id, detail::view(gradient, layout().dtype()));
  }
  gradient.reset();
}

void ZeroOptimizer::State::finish(const std::vector<ParamId>& without) {
  for (const ParamId id : without) {
    at::Tensor zero = at::zeros_like(parameter(id).detach());
    hand_over_gradient(id, detail::view(zero, layout().dtype()));
  }
  reduced_ = true;
  if (broadcasts_buffers_) broadcast_buffers(compute_);
}

void ZeroOptimizer::State::step(const ::torch::optim::OptimizerOptions& rule) {
  if (!reduced_)
    detail::refuse(comm(), own_name, "step() without a backward pass",
                   "call backward() first, not under no_sync()");
  if (constants_of(rule_of(comm(), rule)) != constants_of(rule_))
    detail::refuse(comm(), own_name, "a constant of the rule was changed", "change the learning rate alone");
  reduced_ = false;
  detail::with_torch_errors([&] {
    optimizer_->step(compute_, rule.get_lr());
    params_->gather_all(compute_);
    compute_.synchronize();
  });
}

ZeroOptimizer::ZeroOptimizer(Communicator comm, ::torch::nn::Module& module,
                             const ::torch::optim::OptimizerOptions& rule, ZeroOptions options)
    : Optimizer(trained(module), rule.clone()),
      state_(std::make_unique<State>(std::move(comm), module, rule, options)) {}
ZeroOptimizer::~ZeroOptimizer() = default;

at::Tensor ZeroOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode with_graph(true);
    loss = closure();
  }
  const at::NoGradGuard no_graph;
  if (param_groups().size() != 1)
    detail::refuse(state_->comm(), own_name, "parameter groups were added", "all parameters have one rule");
  state_->step(param_groups().front().options());
  return loss;
}

NoSync ZeroOptimizer::no_sync() {
  return state_->no_sync();
}
zero::ShardedOptimizer& ZeroOptimizer::sharded() {
  return state_->optimizer();
}
zero::ShardedParams& ZeroOptimizer::params() {
  return state_->params();
}

void ZeroOptimizer::save(::torch::serialize::OutputArchive& /*archive*/) const {
  detail::refuse(state_->comm(), own_name, "torch::save of sharded state",
                 "save the module, which is whole on every rank");
}
void ZeroOptimizer::load(::torch::serialize::InputArchive& /*archive*/) {
  detail::refuse(state_->comm(), own_name, "torch::load of sharded state",
                 "load the module before the optimizer is made");
}

}  // namespace weft::torch
