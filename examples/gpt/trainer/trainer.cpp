#include "gpt/trainer/trainer.hpp"

#include <algorithm>
#include <optional>

namespace weft::examples {

zero::Optimizer optimizer_of(const OptimizerSpec& spec) {
  if (spec.kind == OptimizerKind::sgd)
    return zero::Sgd{.learning_rate = spec.learning_rate, .momentum = spec.momentum};
  zero::AdamW adamw{.learning_rate = spec.learning_rate,
                    .beta1 = spec.beta1,
                    .beta2 = spec.beta2,
                    .epsilon = spec.epsilon,
                    .weight_decay = spec.weight_decay};
  if (spec.kind == OptimizerKind::lamb)
    return zero::Lamb{.learning_rate = spec.learning_rate,
                      .beta1 = spec.beta1,
                      .beta2 = spec.beta2,
                      .weight_decay = spec.weight_decay};
  if (spec.kind == OptimizerKind::lars)
    return zero::Lars{
        .learning_rate = spec.learning_rate, .momentum = spec.momentum, .weight_decay = spec.weight_decay};
  if (spec.kind != OptimizerKind::muon) return adamw;
  adamw.learning_rate = spec.others_rate;
  return zero::Muon{.learning_rate = spec.learning_rate,
                    .momentum = spec.momentum,
                    .weight_decay = spec.weight_decay,
                    .others = adamw};
}

zero::ShardedOptimizerOptions with_groups(zero::ShardedOptimizerOptions options, const OptimizerSpec& spec,
                                          const ParamLayout& layout) {
  const bool decays = spec.kind != OptimizerKind::sgd && spec.weight_decay > 0;
  if (decays && !options.groups) options.groups = zero::decay_matrices(layout);
  return options;
}

namespace {

/// Gathers the groups of a model's layers as they are used.
template <class Real>
class GatheringSource final : public ParameterSource {
 public:
  GatheringSource(zero::ShardedParams& params, ParameterTable<Real>& table, const Stream& compute)
      : params_(params), table_(table), compute_(compute) {}

  void use(int group) override {
    gathered_ = std::make_unique<zero::Gathered>(params_.gather(group, compute_));
    for (int i = 0; i < params_.layout().parameters(); ++i) {
      if (params_.unit_of(ParamId{i}) == group)
        table_.place(i, static_cast<Real*>((*gathered_)[ParamId{i}].data()));
    }
  }
  void done(int) override { gathered_.reset(); }

 private:
  zero::ShardedParams& params_;
  ParameterTable<Real>& table_;
  const Stream& compute_;
  std::unique_ptr<zero::Gathered> gathered_;
};

/// Gradients are written directly where they are reduced. While they accumulate they go through scratch, so
/// that the gradient of a part is computed exactly as it would be alone, and then added.
template <class Real>
class ShardingSink final : public GradientSink<Real> {
 public:
  ShardingSink(zero::ShardedParams& params, Math<Real>& math, Buffer& scratch, const Stream& compute,
               StreamTrace& trace)
      : params_(params),
        math_(math),
        scratch_(static_cast<Real*>(scratch.view().data())),
        compute_(compute),
        trace_(trace) {}

  Real* target(int parameter) override {
    params_.poll();
    trace_.begin(compute_, "backward: " + params_.layout().name(ParamId{parameter}));
    return params_.accumulating() ? scratch_ : gradient(parameter);
  }

  void ready(int parameter) override {
    if (params_.accumulating())
      math_.add(scratch_, gradient(parameter), params_.layout().count(ParamId{parameter}));
    params_.mark_ready(ParamId{parameter}, compute_);
  }

 private:
  Real* gradient(int parameter) {
    return static_cast<Real*>(params_.gradient(ParamId{parameter}, compute_).data());
  }

  zero::ShardedParams& params_;
  Math<Real>& math_;
  Real* scratch_;
  const Stream& compute_;
  StreamTrace& trace_;
};

zero::ShardedOptions with_units(zero::ShardedOptions options, const std::vector<int>& firsts) {
  for (const int first : firsts) options.units.push_back(ParamId{first});
  return options;
}

std::int64_t largest(const ParamLayout& layout) {
  std::int64_t most = 0;
  for (int i = 0; i < layout.parameters(); ++i) most = std::max(most, layout.count(ParamId{i}));
  return most;
}

}  // namespace

template <class Real>
class Trainer<Real>::State {
 public:
  State(Communicator communicator, const ModelSpec& spec, const Text& read, const TrainerOptions& given)
      : comm(std::move(communicator)),
        text(read),
        options(given),
        compute(comm.device()),
        device_math(comm.device().is_host() ? nullptr : make_cuda_math<Real>(compute)),
        math(device_math ? *device_math : host_math<Real>()),
        model(make_model<Real>(spec, math)),
        params(comm, ParamLayout::of(model->parameters(), data_type_of<Real>),
               with_units(options.sharding, model->groups())),
        trace(options.trace, comm.device(), "compute"),
        scratch(math.allocate(options.micro_steps > 1 ? largest(params.layout()) : 0)),
        batch(static_cast<std::size_t>(spec.sequences)),
        source(params, model->table(), compute),
        optimizing(spec.optimizer) {
    load_initial();
    if (options.rule) {
      std::visit([&](const auto& rule) { optimizing.learning_rate = rule.learning_rate; }, *options.rule);
      optimizer.emplace(params, *options.rule, options.stepping);
    } else {
      optimizer.emplace(params, optimizer_of(optimizing),
                        with_groups(options.stepping, optimizing, params.layout()));
    }
    model->follow(&source);
  }

  void load_initial();
  double step();

  Communicator comm;
  const Text& text;
  TrainerOptions options;
  Stream compute;
  std::unique_ptr<Math<Real>> device_math;  // null on the host
  Math<Real>& math;
  std::unique_ptr<Model<Real>> model;
  zero::ShardedParams params;
  StreamTrace trace;
  Buffer scratch;
  std::vector<Sequence> batch;
  GatheringSource<Real> source;
  OptimizerSpec optimizing;
  std::optional<zero::ShardedOptimizer> optimizer;  // made when the parameters are loaded
  std::int64_t steps = 0;
};

// The whole model is initialized at once. Its values depend on the seed alone; ShardedParams compares them.
template <class Real>
void Trainer<Real>::State::load_initial() {
  const auto infos = std::span(model->parameters());
  const std::vector<std::int64_t> offsets = packed_offsets(infos);
  Buffer start = math.allocate(total_count(infos));
  model->bind(start.view(), offsets);
  model->initialize(options.seed);
  compute.synchronize();
  for (std::size_t i = 0; i < infos.size(); ++i)
    params.load(ParamId{static_cast<int>(i)}, start.view().slice(offsets[i], infos[i].count));
}

template <class Real>
double Trainer<Real>::State::step() {
  const RateSchedule schedule{optimizing.warmup_steps, options.steps, optimizing.final_fraction};
  optimizer->begin_step(optimizing.learning_rate * learning_rate(steps, schedule));
  double loss = 0;
  for (int part = 0; part < options.micro_steps; ++part) {
    const std::int64_t first =
        (std::int64_t{options.share.rank} * options.micro_steps + part) * std::ssize(batch);
    text.training(options.seed, steps, first, batch);
    params.begin_step(part + 1 < options.micro_steps ? Exchange::no_sync : Exchange::now);
    trace.begin(compute, "forward");
    loss += model->forward(batch) / options.micro_steps;
    ShardingSink<Real> sink(params, math, scratch, compute, trace);
    model->backward(sink);
    if (part + 1 < options.micro_steps) params.reducer().finish_step(compute);
  }
  trace.begin(compute, "finish the step");
  optimizer->step(compute);
  ++steps;
  trace.end(compute);
  compute.synchronize();
  return loss;
}

template <class Real>
Trainer<Real>::Trainer(Communicator comm, const ModelSpec& spec, const Text& text,
                       const TrainerOptions& options)
    : state_(std::make_unique<State>(std::move(comm), spec, text, options)) {}
template <class Real>
Trainer<Real>::~Trainer() = default;
template <class Real>
Trainer<Real>::Trainer(Trainer&&) noexcept = default;

template <class Real>
double Trainer<Real>::step() {
  return state_->step();
}

template <class Real>
zero::ShardedOptimizer& Trainer<Real>::optimizer() {
  return *state_->optimizer;
}

template <class Real>
const Stream& Trainer<Real>::compute() const {
  return state_->compute;
}

template <class Real>
void Trainer<Real>::go_on_after(std::int64_t steps) {
  state_->steps = steps;
}

template <class Real>
std::int64_t Trainer<Real>::steps_done() const {
  return state_->steps;
}

template <class Real>
double Trainer<Real>::held_out_loss(std::int64_t first, std::int64_t count) {
  state_->text.held_out(count, first, state_->batch);
  return state_->model->forward(state_->batch);
}

template <class Real>
int Trainer<Real>::sequences() const {
  return static_cast<int>(state_->batch.size());
}

template <class Real>
std::vector<Real> Trainer<Real>::parameters() {
  std::vector<Real> all;
  for (int i = 0; i < state_->params.layout().parameters(); ++i) {
    const Buffer values = state_->params.whole(ParamId{i});
    const std::span<const Real> here = values.as<Real>();
    all.insert(all.end(), here.begin(), here.end());
  }
  return all;
}

template <class Real>
const GradientReducer& Trainer<Real>::reducer() const {
  return state_->params.reducer();
}

template <class Real>
double Trainer<Real>::exposed_seconds() const {
  return state_->params.exposed_seconds();
}

template <class Real>
StepHistory Trainer<Real>::account() {
  return state_->params.reducer().account();
}

template <class Real>
std::uint64_t Trainer<Real>::wire_bytes() const {
  return state_->params.wire_bytes();
}

template <class Real>
std::int64_t Trainer<Real>::held_bytes() const {
  return state_->params.held_bytes() + state_->optimizer->state_bytes() + state_->optimizer->host_bytes() +
         state_->model->workspace_bytes() + static_cast<std::int64_t>(state_->scratch.size_bytes());
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace weft::examples
