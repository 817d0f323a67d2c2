#include "training.hpp"

#include "codecs.hpp"
#include "contestant.hpp"
#include "deepspeed.hpp"
#include "pipelines.hpp"
#include "strategy.hpp"
#include "weft-scaling/gpt/trainer/trainer.hpp"

namespace weft::scaling {
namespace {

class WholeTraining final : public Training {
 public:
  WholeTraining(const Strategy& strategy, bool communicates, const Communicator& comm,
                const examples::ModelSpec& spec, const Options& options, const examples::Text& text,
                std::shared_ptr<Trace> trace)
      : comm_(comm),
        communicates_(communicates),
        sharding_(sharding_of(strategy, options)),
        trainer_(communicates_ ? comm : alone(comm), spec, text,
                 options_of(strategy, comm, options, std::move(trace))),
        steps_(options.steps) {
    if (!strategy.local) return;
    period_ = strategy.local->every;
    local_.emplace(comm, trainer_.reducer().layout(), trainer_.parameters_in_place(),
                   local_options_of(strategy, options));
  }

  void step() override {
    training_loss_ = trainer_.step();
    if (!local_) return;
    const Stream& compute = trainer_.compute();
    (void)trainer_.parameters_in_place();  // compute waits for the update
    bool changed = local_->step(compute) != OuterStep::none;
    if (steps_done() == steps_)  // the loss is that of one model
      changed = local_->outer_step(compute) != OuterStep::none || changed;
    if (!changed) return;
    trainer_.optimizer().take_parameters(compute);
    Stream(compute).synchronize();
  }
  std::int64_t steps_done() const override { return trainer_.steps_done(); }
  void resume(examples::Checkpoints& checkpoints) override { checkpoints.resume(trainer_); }
  bool after_step(examples::Checkpoints& checkpoints, bool last) override {
    return checkpoints.after_step(trainer_, trainer_.steps_done(), last);
  }
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
  std::int64_t period() const override { return period_; }
  double exposed_seconds() const override {
    return trainer_.exposed_seconds() + (local_ ? local_->account().exposed_seconds : 0);
  }
  std::uint64_t wire_bytes() const override {
    return trainer_.wire_bytes() + (local_ ? local_->account().bytes_sent : 0);
  }
  std::int64_t held_bytes() const override {
    return trainer_.held_bytes() + (local_ ? local_->held_bytes() : 0);
  }
  void account(AccountedSteps& steps) override {
    if (communicates_ && comm_.device().is_host()) steps.add(trainer_.account(), trainer_.reducer().plan());
  }
  const GradientReducer* reducer() const override { return &trainer_.reducer(); }
  std::optional<CodecChoice> choice() const override { return choice_of(sharding_.hook.get()); }

 private:
  examples::TrainerOptions options_of(const Strategy& strategy, const Communicator& comm,
                                      const Options& options, std::shared_ptr<Trace> trace) const {
    examples::TrainerOptions result = trainer_options(options);
    result.share = {comm.rank(), comm.size()};
    result.batches = options.batches;
    result.sharding = sharding_;
    result.stepping.offload = offload_of(strategy, options);
    result.trace = std::move(trace);
    return result;
  }

  Communicator comm_;
  bool communicates_;
  zero::ShardedOptions sharding_;
  examples::Trainer<float> trainer_;
  std::optional<LocalSteps> local_{};
  std::int64_t steps_;
  std::int64_t period_ = 1;
  double training_loss_ = 0;
};

}  // namespace

std::unique_ptr<Training> make_training(const std::string& strategy, const Communicator& comm,
                                        const examples::ModelSpec& spec, const Options& options,
                                        const examples::Text& text, std::shared_ptr<Trace> trace) {
  const Strategy one = parsed(strategy);
  if (one.schedule) return make_pipeline_training(one, comm, spec, options, text, std::move(trace));
  return std::make_unique<WholeTraining>(one, strategy != "nocomm" && !one.local, comm, spec, options, text,
                                         std::move(trace));
}

}  // namespace weft::scaling
