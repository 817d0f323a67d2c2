#include "pipelines.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "common/schedule_chunks.hpp"
#include "contestant.hpp"
#include "weft-scaling/gpt/pipeline/pipeline_trainer.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::scaling {
namespace {

examples::PipelineOptions pipeline_of(const Strategy& strategy, const Options& options) {
  return {.schedule = *strategy.schedule,
          .devices = options.pipeline_devices.value_or(0),
          .chunks = options.chunks,
          .microbatch = options.microbatch,
          .batches = options.batches,
          .steps = options.steps,
          .seed = options.seed,
          .sharding = sharding_of(strategy, options),
          .stepping = {.offload = strategy.offload}};
}

class PipelineTraining final : public Training {
 public:
  PipelineTraining(const Strategy& strategy, const Communicator& comm, const examples::ModelSpec& spec,
                   const Options& options, const examples::Text& text, std::shared_ptr<Trace> trace)
      : comm_(comm), trainer_(comm, spec, text, [&] {
          examples::PipelineOptions pipeline = pipeline_of(strategy, options);
          pipeline.trace = std::move(trace);
          return pipeline;
        }()) {}

  void step() override { trainer_.step(); }
  std::int64_t steps_done() const override { return trainer_.steps_done(); }
  void resume(examples::Checkpoints& checkpoints) override { checkpoints.resume(trainer_); }
  bool after_step(examples::Checkpoints& checkpoints, bool last) override {
    return checkpoints.after_step(trainer_, trainer_.steps_done(), last);
  }
  double training_loss() override { return trainer_.training_loss(); }
  // The ranks of a pipeline evaluate their batches together: in total the same sequences as without a
  // pipeline.
  double held_out_loss(std::int64_t batches) override {
    const examples::Share share = trainer_.share();
    const std::int64_t each = trainer_.sequences();
    double sum = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      sum += trainer_.held_out_loss((batch * share.ranks + share.rank) * each, batches * each * share.ranks);
    }
    return mean(gather(comm_, sum / static_cast<double>(batches)));
  }
  double exposed_seconds() const override { return trainer_.exposed_seconds(); }
  std::uint64_t wire_bytes() const override { return trainer_.wire_bytes(); }
  std::int64_t held_bytes() const override { return trainer_.held_bytes(); }
  std::string explanation() const override {
    const examples::PipelinePlan& plan = trainer_.plan();
    std::ostringstream out;
    out << "executes " << plan.schedule.name << ": " << plan.schedule.devices() << " device(s), "
        << plan.schedule.stages() << " stages, " << plan.schedule.microbatches << " microbatches";
    if (plan.predicted > 0) {
      out << std::fixed << std::setprecision(1) << "; by what was measured a step takes "
          << static_cast<double>(plan.predicted) * 1e-6 << " ms, at most " << plan.gap * 100
          << " % more than the shortest with so many stages";
    }
    return std::move(out).str();
  }

 private:
  Communicator comm_;
  examples::PipelineTrainer<float> trainer_;
};

}  // namespace

void check_schedule(const std::string& schedule) {
  const auto known = pipeline::named_schedules();
  if (schedule == chosen || std::ranges::find(known, schedule, &pipeline::NamedSchedule::name) != known.end())
    return;
  (void)pipeline::make_named(schedule, {});  // says what is allowed
}

void check_pipeline(const Strategy& strategy, const Options& options, int ranks) {
  if (options.chunks) tool::expect_chunks(*strategy.schedule, *options.chunks);
  (void)examples::planned_pipeline(spec_of(options), ranks, pipeline_of(strategy, options));
}

std::unique_ptr<Training> make_pipeline_training(const Strategy& strategy, const Communicator& comm,
                                                 const examples::ModelSpec& spec, const Options& options,
                                                 const examples::Text& text, std::shared_ptr<Trace> trace) {
  return std::make_unique<PipelineTraining>(strategy, comm, spec, options, text, std::move(trace));
}

}  // namespace weft::scaling
