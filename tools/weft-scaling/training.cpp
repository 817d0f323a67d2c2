#include "training.hpp"

#include <iomanip>
#include <sstream>

#include "contestant.hpp"
#include "gpt/pipeline/pipeline_trainer.hpp"
#include "strategy.hpp"

namespace weft::scaling {
namespace {

class WholeTraining final : public Training {
 public:
  WholeTraining(const std::string& strategy, const Communicator& comm, const examples::ModelSpec& spec,
                const Options& options, const examples::Text& text, std::shared_ptr<Trace> trace)
      : comm_(comm),
        communicates_(strategy != "nocomm"),
        sharding_(sharding_of(strategy, options)),
        trainer_(communicates_ ? comm : alone(comm), spec, text,
                 {.share = {comm.rank(), comm.size()},
                  .steps = options.steps,
                  .seed = options.seed,
                  .sharding = sharding_,
                  .stepping = stepping_of(strategy),
                  .trace = std::move(trace)}) {}

  void step() override { training_loss_ = trainer_.step(); }
  std::int64_t steps_done() const override { return trainer_.steps_done(); }
  double training_loss() override { return mean(gather(comm_, training_loss_)); }
  double held_out_loss(std::int64_t batches) override {
    const std::int64_t each = trainer_.sequences();
    double sum = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      sum +=
          trainer_.held_out_loss((batch * comm_.size() + comm_.rank()) * each, batches * each * comm_.size());
    }
    return mean(gather(comm_, sum / static_cast<double>(batches)));
  }
  double exposed_seconds() const override { return trainer_.exposed_seconds(); }
  std::uint64_t wire_bytes() const override { return trainer_.wire_bytes(); }
  std::int64_t held_bytes() const override { return trainer_.held_bytes(); }
  void account(AccountedSteps& steps) override {
    if (communicates_ && comm_.device().is_host()) steps.add(trainer_.account(), trainer_.reducer().plan());
  }
  const GradientReducer* reducer() const override { return &trainer_.reducer(); }
  std::optional<CodecChoice> choice() const override {
    const auto* chooses = dynamic_cast<const AutoHook*>(sharding_.reducer.hook.get());
    return chooses != nullptr ? chooses->choice() : std::nullopt;
  }

 private:
  Communicator comm_;
  bool communicates_;
  zero::ShardedOptions sharding_;
  examples::Trainer<float> trainer_;
  double training_loss_ = 0;
};

class PipelineTraining final : public Training {
 public:
  PipelineTraining(const std::string& strategy, const Communicator& comm, const examples::ModelSpec& spec,
                   const Options& options, const examples::Text& text, std::shared_ptr<Trace> trace)
      : comm_(comm), trainer_(comm, spec, text, [&] {
          examples::PipelineOptions pipeline = *pipeline_of(strategy, options);
          pipeline.trace = std::move(trace);
          return pipeline;
        }()) {}

  void step() override { trainer_.step(); }
  std::int64_t steps_done() const override { return trainer_.steps_done(); }
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

std::unique_ptr<Training> make_training(const std::string& strategy, const Communicator& comm,
                                        const examples::ModelSpec& spec, const Options& options,
                                        const examples::Text& text, std::shared_ptr<Trace> trace) {
  if (pipeline_of(strategy, options))
    return std::make_unique<PipelineTraining>(strategy, comm, spec, options, text, std::move(trace));
  return std::make_unique<WholeTraining>(strategy, comm, spec, options, text, std::move(trace));
}

}  // namespace weft::scaling
