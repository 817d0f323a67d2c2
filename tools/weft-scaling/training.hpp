#pragma once
// The interface by which weft-scaling drives a trainer: of the whole model, or of a model that is cut into
// stages.
//
//   const auto training = make_training("pipeline:zb-h1+zero2", comm, spec, options, text, trace);
//   training->step();
//   training->held_out_loss(4);

#include <memory>
#include <string>

#include "accounted_steps.hpp"
#include "options.hpp"
#include "weft-scaling/gpt/data/text.hpp"
#include "weft-scaling/gpt/trainer/checkpoints.hpp"

namespace weft::scaling {

class Training {
 public:
  virtual ~Training() = default;
  Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  virtual void step() = 0;
  virtual std::int64_t steps_done() const = 0;
  /// As Checkpoints' own. Collective.
  virtual void resume(examples::Checkpoints& checkpoints) = 0;
  virtual bool after_step(examples::Checkpoints& checkpoints, bool last) = 0;
  /// The loss of the last step, mean over ranks. Collective.
  virtual double training_loss() = 0;
  /// The held-out loss of this rank's share of so many batches per rank. Collective.
  virtual double held_out_loss(std::int64_t batches) = 0;
  /// After so many steps what a step costs repeats itself: figures are then means over so many.
  virtual std::int64_t period() const { return 1; }
  virtual double exposed_seconds() const = 0;
  virtual std::uint64_t wire_bytes() const = 0;
  virtual std::int64_t held_bytes() const = 0;
  /// Adds the accounts of the steps since the last call, if there are any. Collective.
  virtual void account(AccountedSteps& /*steps*/) {}
  /// The reducer whose bucket plan covers the whole model; null if there is none.
  virtual const GradientReducer* reducer() const { return nullptr; }
  /// The chosen codecs, if the strategy chooses.
  virtual std::optional<CodecChoice> choice() const { return {}; }
  /// What the strategy chose itself, as text; empty if nothing.
  virtual std::string explanation() const { return {}; }
};

/// Collective. @param trace may be null
std::unique_ptr<Training> make_training(const std::string& strategy, const Communicator& comm,
                                        const examples::ModelSpec& spec, const Options& options,
                                        const examples::Text& text, std::shared_ptr<Trace> trace);

}  // namespace weft::scaling
