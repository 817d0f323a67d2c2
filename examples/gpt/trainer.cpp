#include "trainer.hpp"

#include <algorithm>

namespace weft::examples {
namespace {

/// Gradients go straight into the reducer's arena; while it accumulates, through scratch, so that a part's
/// gradient is computed exactly as it would be alone and then added.
template <class Real>
class ReducerSink final : public GradientSink<Real> {
 public:
  ReducerSink(GradientReducer& reducer, Math<Real>& math, Buffer& scratch, const Stream& compute,
              StreamTrace& trace)
      : reducer_(reducer),
        math_(math),
        scratch_(static_cast<Real*>(scratch.view().data())),
        compute_(compute),
        trace_(trace) {}

  Real* target(int parameter) override {
    reducer_.poll();
    trace_.begin(compute_, "backward: " + reducer_.layout().name(ParamId{parameter}));
    return reducer_.accumulating() ? scratch_ : gradient(parameter);
  }

  void ready(int parameter) override {
    if (reducer_.accumulating())
      math_.add(scratch_, gradient(parameter), reducer_.layout().count(ParamId{parameter}));
    reducer_.mark_ready(ParamId{parameter}, compute_);
  }

 private:
  Real* gradient(int parameter) { return static_cast<Real*>(reducer_.gradient(ParamId{parameter}).data()); }

  GradientReducer& reducer_;
  Math<Real>& math_;
  Real* scratch_;
  const Stream& compute_;
  StreamTrace& trace_;
};

std::int64_t largest(const ParamLayout& layout) {
  std::int64_t most = 0;
  for (int i = 0; i < layout.parameters(); ++i) most = std::max(most, layout.count(ParamId{i}));
  return most;
}

}  // namespace

template <class Real>
class Trainer<Real>::State {
 public:
  State(Communicator communicator, const ModelSpec& spec, const Text& source, const TrainerOptions& given)
      : comm(std::move(communicator)),
        text(source),
        options(given),
        compute(comm.device()),
        device_math(comm.device().is_host() ? nullptr : make_cuda_math<Real>(compute)),
        math(device_math ? *device_math : host_math<Real>()),
        model(make_model<Real>(spec, math)),
        reducer(comm, ParamLayout::of(model->parameters(), data_type_of<Real>), options.reducer),
        parameters(math.allocate(reducer.layout().size())),
        optimizer(make_optimizer<Real>(reducer.layout().size(), spec.optimizer, math)),
        trace(options.trace, comm.device(), "compute"),
        scratch(math.allocate(options.micro_steps > 1 ? largest(reducer.layout()) : 0)),
        batch(static_cast<std::size_t>(spec.sequences)) {
    model->bind(parameters.view(), reducer.layout().offsets());
    model->initialize(options.seed);
    comm.broadcast(parameters.view(), 0, compute);
    compute.synchronize();
  }

  double step();
  void update(const Bucket& bucket);

  Communicator comm;
  const Text& text;
  TrainerOptions options;
  Stream compute;
  std::unique_ptr<Math<Real>> device_math;  // null on the host
  Math<Real>& math;
  std::unique_ptr<Model<Real>> model;
  GradientReducer reducer;
  Buffer parameters;
  std::unique_ptr<Optimizer<Real>> optimizer;
  StreamTrace trace;
  Buffer scratch;
  std::vector<Sequence> batch;
  std::int64_t steps = 0;
};

template <class Real>
double Trainer<Real>::State::step() {
  double loss = 0;
  for (int part = 0; part < options.micro_steps; ++part) {
    const std::int64_t first =
        (std::int64_t{options.share.rank} * options.micro_steps + part) * std::ssize(batch);
    text.training(options.seed, steps, first, batch);
    reducer.begin_step(part + 1 < options.micro_steps ? Exchange::later : Exchange::now);
    trace.begin(compute, "forward");
    loss += model->forward(batch) / options.micro_steps;
    ReducerSink<Real> sink(reducer, math, scratch, compute, trace);
    model->backward(sink);
    if (part + 1 < options.micro_steps) reducer.finish_step(compute);
  }
  trace.begin(compute, "finish the step");
  const OptimizerSpec& spec = optimizer->spec();
  const Schedule schedule{spec.warmup_steps, options.steps, spec.final_fraction};
  optimizer->begin_step(spec.learning_rate * learning_rate(steps++, schedule));
  reducer.finish_step(compute,
                      [this](const Bucket& bucket) { compute.run([this, &bucket] { update(bucket); }); });
  trace.end(compute);
  compute.synchronize();
  return loss;
}

template <class Real>
void Trainer<Real>::State::update(const Bucket& bucket) {
  optimizer->update(bucket.begin, parameters.view().slice(bucket.begin, bucket.count()),
                    reducer.gradients().slice(bucket.begin, bucket.count()));
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
std::vector<Real> Trainer<Real>::parameters() const {
  std::vector<Real> values(static_cast<std::size_t>(state_->parameters.count()));
  state_->math.get(static_cast<const Real*>(state_->parameters.view().data()), values);
  return values;
}

template <class Real>
const GradientReducer& Trainer<Real>::reducer() const {
  return state_->reducer;
}

template <class Real>
StepHistory Trainer<Real>::account() {
  return state_->reducer.account();
}

template <class Real>
std::uint64_t Trainer<Real>::wire_bytes() const {
  return state_->comm.wire_bytes();
}

template <class Real>
std::int64_t Trainer<Real>::held_bytes() const {
  const auto flat = static_cast<std::int64_t>(state_->reducer.layout().size_bytes());
  return 2 * flat + state_->optimizer->state_bytes() + state_->model->workspace_bytes() +
         static_cast<std::int64_t>(state_->scratch.size_bytes());
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace weft::examples
