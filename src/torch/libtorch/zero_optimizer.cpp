#include "weft/torch/zero_optimizer.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <array>

#include "torch/libtorch/gradient_hooks.hpp"
#include "torch/libtorch/kept_gradient.hpp"

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
  std::vector<at::Tensor> all;
  for (const auto& [name, parameter] : detail::trained(module)) all.push_back(parameter);
  return all;
}

}  // namespace

class ZeroOptimizer::State final : public detail::GradientHooks {
 public:
  State(Communicator comm, ::torch::nn::Module& module, const ::torch::optim::OptimizerOptions& rule,
        const ZeroOptions& options);
  ~State() override {
    unhook();
    drop_kept_gradients();
  }

  void step(const ::torch::optim::OptimizerOptions& rule);
  zero::ShardedOptimizer& optimizer() { return *optimizer_; }
  zero::ShardedParams& params() { return *params_; }

 protected:
  void before(ParamId id) override;
  void begin() override;
  void ready(ParamId id, detail::Holders holders) override;
  void finish(const std::vector<ParamId>& without) override;

 private:
  void hand_over_gradient(ParamId id, ConstView gradient);
  void place_parameters();
  bool is_any_gradient_kept();
  void drop_kept_gradients() noexcept;
  void expect_no_gradients();
  void take_changed_parameters();
  void expect_one_rate();

  bool broadcasts_buffers_;
  zero::Optimizer rule_;
  Stream compute_;
  bool reduced_ = false;  // a pass has handed its gradients over, and step() has not been called
  std::shared_ptr<zero::ShardedParams> params_;  // parameters keep it, and with it their memory
  std::unique_ptr<zero::ShardedOptimizer> optimizer_;
  std::vector<at::Tensor> places_;      // of parameters, in weft's memory
  std::vector<std::int64_t> versions_;  // of parameters, which changes in place count
  double rate_ = 0;                     // of a step; in memory that outlives its exchange if the step throws
  std::vector<double> rates_;           // the same, by rank
};

ZeroOptimizer::State::State(Communicator comm, ::torch::nn::Module& module,
                            const ::torch::optim::OptimizerOptions& rule, const ZeroOptions& options)
    : GradientHooks(std::move(comm), module, own_name),
      broadcasts_buffers_(options.broadcast_buffers),
      rule_(rule_of(this->comm(), rule)) {
  if (options.stage != 1 && options.stage != 2)
    detail::refuse(this->comm(), own_name, text("stage ", options.stage),
                   "take 1 or 2: torch's modules need whole parameters");
  buffers().sync_initial_values(options.initial_values);
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
  for (int i = 0; i < count; ++i) {
    places_.push_back(tensor_over(ParamId{i}, whole[ParamId{i}], params_));
    parameter(ParamId{i}).set_data(places_.back());
    versions_.push_back(parameter(ParamId{i})._version());
  }
}

// torch::load(), set_data() and vector_to_parameters() give parameters other memory, and clamp_() or copy_() change
// them where they are. Both are the program's right between steps: weft goes on from the new values.
void ZeroOptimizer::State::take_changed_parameters() {
  const at::NoGradGuard no_graph;
  bool changed = false;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    at::Tensor& one = parameter(ParamId{static_cast<std::int32_t>(i)});
    if (one.data_ptr() != places_[i].data_ptr()) {
      places_[i].copy_(one.detach());
      one.set_data(places_[i]);
    } else if (one._version() == versions_[i]) {
      continue;
    }
    versions_[i] = one._version();
    changed = true;
  }
  if (changed) optimizer_->take_parameters(compute_);
}

bool ZeroOptimizer::State::is_any_gradient_kept() {
  for (int i = 0; i < layout().parameters(); ++i) {
    if (detail::is_kept_gradient(parameter(ParamId{i}).grad())) return true;
  }
  return false;
}

void ZeroOptimizer::State::drop_kept_gradients() noexcept {
  for (int i = 0; i < layout().parameters(); ++i) {
    at::Tensor& gradient = parameter(ParamId{i}).mutable_grad();
    if (detail::was_kept_gradient(gradient)) gradient.reset();
  }
}

void ZeroOptimizer::State::expect_no_gradients() {
  if (reduced_ && is_any_gradient_kept())
    detail::refuse(
        comm(), own_name, "two backward passes before step()",
        "run all passes of a step but the last under no_sync(), or drop the gradients of a step that "
        "is left out with zero_grad()");
}

// Accumulation would add to what stands for the gradient.
void ZeroOptimizer::State::before(ParamId id) {
  at::Tensor& gradient = parameter(id).mutable_grad();
  if (!detail::was_kept_gradient(gradient)) return;
  expect_no_gradients();
  gradient.reset();
}

void ZeroOptimizer::State::begin() {
  expect_no_gradients();
  if (reduced_)
    params_->reducer().finish_step(compute_);  // zero_grad() has dropped them: the step is left out
  reduced_ = false;
  drop_kept_gradients();  // those of the step before, of parameters that this pass may not reach
  take_changed_parameters();
  params_->begin_step();
}

void ZeroOptimizer::State::hand_over_gradient(ParamId id, ConstView gradient) {
  params_->reducer().mark_ready(id, gradient, compute_);
  if (!compute_.poll()) compute_.synchronize();  // the gradient's memory goes
}

void ZeroOptimizer::State::ready(ParamId id, detail::Holders holders) {
  at::Tensor& gradient = parameter(id).mutable_grad();
  if (holders.before && gradient.storage().nbytes() > gradient.nbytes())
    detail::refuse(
        comm(), own_name,
        text("the gradient of ", layout().name(id), " lies in a larger tensor of the program's"),
        "ZeroOptimizer keeps gradients, which would not get there: leave '.grad' to it and clip with "
        "ZeroOptions::clip_norm, or take DataParallel and torch's optimizer");
  const at::Tensor whole = parameter(id).detach();
  if (gradient.strides() != whole.strides()) {
    at::Tensor same = at::empty_like(whole);
    same.copy_(gradient.detach());
    hand_over_gradient(id, detail::view(same, layout().dtype()));
  } else {
    hand_over_gradient(id, detail::view(gradient, layout().dtype()));
  }
  gradient = detail::kept_gradient(gradient, layout().name(id), comm().rank());
}

void ZeroOptimizer::State::finish(const std::vector<ParamId>& without) {
  for (const ParamId id : without) {
    at::Tensor zero = at::zeros_like(parameter(id).detach());
    hand_over_gradient(id, detail::view(zero, layout().dtype()));
  }
  reduced_ = true;
  if (broadcasts_buffers_) buffers().broadcast(compute_);
}

void ZeroOptimizer::State::step(const ::torch::optim::OptimizerOptions& rule) {
  if (!reduced_)
    detail::refuse(comm(), own_name, "step() without a backward pass",
                   "call backward() first, not under no_sync()");
  if (constants_of(rule_of(comm(), rule)) != constants_of(rule_))
    detail::refuse(comm(), own_name, "a constant of the rule was changed", "change the learning rate alone");
  reduced_ = false;
  detail::with_torch_errors([&] {
    take_changed_parameters();
    rate_ = rule.get_lr();
    rates_.assign(static_cast<std::size_t>(comm().size()), rate_);
    comm().all_gather(ConstView(std::span(&rate_, 1)), View(std::span(rates_)), compute_);
    optimizer_->step(compute_, rate_);
    params_->gather_all(compute_);
    compute_.synchronize();
    expect_one_rate();
  });
}

// Each rank updates its part of the parameters: they would be a mixture.
void ZeroOptimizer::State::expect_one_rate() {
  const auto other = std::ranges::find_if(rates_, [this](double one) { return one != rate_; });
  if (other == rates_.end()) return;
  throw weft::Error(
      ErrorKind::mismatch,
      text("the learning rate is ", rate_, " on this rank and ", *other, " on rank ", other - rates_.begin()),
      "set the same on every rank, as a schedule does that counts steps alike", {comm().rank(), own_name, 0});
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
