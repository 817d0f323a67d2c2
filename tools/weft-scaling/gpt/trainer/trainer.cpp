#include "weft-scaling/gpt/trainer/trainer.hpp"

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

Batches batches_of(const Share& share, int all) {
  const int each = all / share.ranks, more = all % share.ranks;
  return {std::int64_t{share.rank} * each + std::min(share.rank, more), each + (share.rank < more ? 1 : 0)};
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
/// that the gradient of a batch is computed exactly as it would be alone, and then added. Those of a pass that only
/// keeps the other ranks company stay in scratch.
template <class Real>
class ShardingSink final : public GradientSink<Real> {
 public:
  /// @param zeros null: the gradients count; else they do not, and these stand for them
  ShardingSink(zero::ShardedParams& params, const Buffer* zeros, Math<Real>& math, Buffer& scratch,
               const Stream& compute, StreamTrace& trace)
      : params_(params),
        zeros_(zeros),
        math_(math),
        scratch_(static_cast<Real*>(scratch.view().data())),
        compute_(compute),
        trace_(trace) {}

  Real* target(int parameter) override {
    params_.poll();
    trace_.begin(compute_, "backward: " + params_.layout().name(ParamId{parameter}));
    return params_.accumulating() || zeros_ != nullptr ? scratch_
                                                       : real(params_.gradient(ParamId{parameter}, compute_));
  }

  void ready(int parameter) override {
    const ParamId id{parameter};
    const std::int64_t count = params_.layout().count(id);
    if (zeros_ == nullptr && params_.accumulating())
      math_.add(scratch_, real(params_.gradient(id, compute_)), count);
    if (zeros_ != nullptr && !params_.accumulating())
      copy(params_.gradient(id, compute_), zeros_->view().slice(0, count), compute_);
    params_.mark_ready(id, compute_);
  }

 private:
  static Real* real(View gradient) { return static_cast<Real*>(gradient.data()); }

  zero::ShardedParams& params_;
  const Buffer* zeros_;
  Math<Real>& math_;
  Real* scratch_;
  const Stream& compute_;
  StreamTrace& trace_;
};

zero::ShardedOptions with_units(zero::ShardedOptions options, const std::vector<int>& firsts) {
  for (const int first : firsts) options.units.push_back(ParamId{first});
  return options;
}

/// How a step goes through this rank's batches. All ranks take equally many passes where they communicate in each.
struct Passes {
  /// Those beyond this rank's batches are idle: their gradients do not count.
  Passes(const TrainerOptions& options, int stage)
      : all(options.batches != 0 ? options.batches : options.micro_steps * options.share.ranks),
        mine(batches_of(options.share, all)),
        count(std::max(stage >= 2 ? batches_of({0, options.share.ranks}, all).count : mine.count, 1)) {}

  bool has_idle() const { return count > mine.count; }

  int all;  ///< batches of a step
  Batches mine;
  int count;
};

/// Those that share out a number of batches say so to the reducer, unless they train alone.
zero::ShardedOptions with_batches(zero::ShardedOptions options, const TrainerOptions& given, int ranks) {
  if (given.batches != 0 && ranks == given.share.ranks) options.micro_batches = given.batches;
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
               with_units(with_batches(options.sharding, options, comm.size()), model->groups())),
        passes(options, options.sharding.stage),
        trace(options.trace, comm.device(), "compute"),
        scratch(math.allocate(passes.count > 1 || passes.has_idle() ? largest(params.layout()) : 0)),
        zeros(math.allocate(passes.has_idle() ? largest(params.layout()) : 0)),
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
  const Passes passes;
  StreamTrace trace;
  Buffer scratch;
  const Buffer zeros;
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
  const double weight = static_cast<double>(options.share.ranks) / passes.all;
  for (int pass = 0; pass < passes.count; ++pass) {
    const bool counts = pass < passes.mine.count, is_last = pass + 1 == passes.count;
    text.training(options.seed, steps, (passes.mine.first + pass) * std::ssize(batch), batch);
    params.begin_step(is_last ? Exchange::now : Exchange::no_sync);
    trace.begin(compute, "forward");
    const double one = model->forward(batch);
    if (counts) loss += one * weight;
    ShardingSink<Real> sink(params, counts ? nullptr : &zeros, math, scratch, compute, trace);
    model->backward(sink);
    if (!is_last) params.reducer().finish_step(compute);
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
std::vector<View> Trainer<Real>::parameters_in_place() {
  zero::ShardedParams& params = state_->params;
  std::vector<View> views;
  for (int i = 0; i < params.layout().parameters(); ++i) {
    const zero::Gathered whole = params.gather(params.unit_of(ParamId{i}), state_->compute);
    views.push_back(whole[ParamId{i}]);
  }
  return views;
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
         state_->model->workspace_bytes() +
         static_cast<std::int64_t>(state_->scratch.size_bytes() + state_->zeros.size_bytes());
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace weft::examples
