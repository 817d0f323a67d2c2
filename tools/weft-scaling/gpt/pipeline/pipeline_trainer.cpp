#include "weft-scaling/gpt/pipeline/pipeline_trainer.hpp"

#include "weft-scaling/gpt/pipeline/pipeline_state.hpp"

namespace weft::examples {
namespace {

int devices_of(int ranks, const PipelineOptions& options) {
  const int devices = options.devices == 0 ? ranks : options.devices;
  if (devices >= 1 && ranks % devices == 0) return devices;
  throw Error(ErrorKind::usage, text("pipelines of ", devices, " devices on ", ranks, " rank(s)"),
              "the number of ranks must be a multiple of the devices");
}

int microbatches_of(const ModelSpec& spec, int pipelines, int devices, const PipelineOptions& options) {
  const int batches = options.batches == 0 ? pipelines * devices : options.batches;
  const int sequences = spec.sequences * batches / pipelines;
  if (spec.sequences * batches % pipelines != 0)
    throw Error(ErrorKind::usage,
                text(batches, " batches of ", spec.sequences, " sequences for ", pipelines, " pipelines"),
                "every pipeline takes as many sequences of a step as the others");
  if (options.microbatch >= 1 && sequences % options.microbatch == 0) return sequences / options.microbatch;
  throw Error(
      ErrorKind::usage,
      text("microbatches of ", options.microbatch, " of the ", sequences, " sequences of a pipeline's step"),
      "give a number that divides them");
}

}  // namespace

PipelineTask task_of(const ModelSpec& spec, int ranks, const PipelineOptions& options) {
  const int devices = devices_of(ranks, options);
  PipelineTask task{.devices = devices,
                    .microbatches = microbatches_of(spec, ranks / devices, devices, options),
                    .units = estimated_costs(gpt_sizes(spec), options.microbatch),
                    .chunks = options.chunks};
  // A device may begin the next step before others end this one, unless all wait for a norm.
  if (!options.stepping.clip_norm && !options.stepping.loss_scale) task.objective = pipeline::Objective::span;
  return task;
}

PipelinePlan planned_pipeline(const ModelSpec& spec, int ranks, const PipelineOptions& options) {
  const PipelineTask task = task_of(spec, ranks, options);
  return options.schedule == "auto" ? found_plan(task) : named_plan(options.schedule, task);
}

template <class Real>
PipelineTrainer<Real>::PipelineTrainer(Communicator comm, const ModelSpec& spec, const Text& text,
                                       const PipelineOptions& options)
    : state_(std::make_unique<State>(std::move(comm), spec, text, options)) {}
template <class Real>
PipelineTrainer<Real>::~PipelineTrainer() = default;
template <class Real>
PipelineTrainer<Real>::PipelineTrainer(PipelineTrainer&&) noexcept = default;

template <class Real>
void PipelineTrainer<Real>::step() {
  state_->step();
}

template <class Real>
zero::ShardedOptimizer& PipelineTrainer<Real>::optimizer() {
  return *state_->optimizer;
}

template <class Real>
const Stream& PipelineTrainer<Real>::compute() const {
  return state_->compute;
}

template <class Real>
void PipelineTrainer<Real>::go_on_after(std::int64_t steps) {
  state_->steps = steps;
}

template <class Real>
std::int64_t PipelineTrainer<Real>::steps_done() const {
  return state_->steps;
}

template <class Real>
double PipelineTrainer<Real>::training_loss() {
  double sum = state_->training_loss;
  Stream stream;
  state_->comm.all_reduce(View(std::span(&sum, 1)), ReduceOp::sum, stream).wait();
  return sum / state_->share.ranks;
}

template <class Real>
double PipelineTrainer<Real>::held_out_loss(std::int64_t first, std::int64_t count) {
  state_->text.held_out(count, first, state_->batch);
  return state_->held_out_loss();
}

template <class Real>
Share PipelineTrainer<Real>::share() const {
  return state_->share;
}

template <class Real>
int PipelineTrainer<Real>::sequences() const {
  return static_cast<int>(state_->batch.size());
}

template <class Real>
const PipelinePlan& PipelineTrainer<Real>::plan() const {
  return state_->plan;
}

template <class Real>
std::vector<Real> PipelineTrainer<Real>::parameters() {
  return state_->parameters();
}

template <class Real>
double PipelineTrainer<Real>::exposed_seconds() const {
  return static_cast<double>(state_->waited_for_stages) * 1e-9 + state_->params.exposed_seconds();
}

template <class Real>
std::uint64_t PipelineTrainer<Real>::wire_bytes() const {
  return state_->executor->wire_bytes() + state_->params.wire_bytes();
}

template <class Real>
std::int64_t PipelineTrainer<Real>::held_bytes() const {
  std::int64_t bytes = state_->params.held_bytes() + state_->optimizer->state_bytes() +
                       state_->optimizer->host_bytes() + state_->executor->held_bytes();
  state_->for_stages([&](const auto& one) { bytes += one.held_bytes(); });
  return bytes;
}

template class PipelineTrainer<float>;
template class PipelineTrainer<double>;

}  // namespace weft::examples
