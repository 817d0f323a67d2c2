#pragma once
// A trainer as weft-scaling drives it, whatever it does with the model: keeps it in one piece, or cuts it
// into stages.
//
//   const auto training = make_training("pipeline:zb-h1+zero2", comm, spec, options, text, trace);
//   training->step();
//   training->held_out_loss(4);

#include <memory>
#include <string>

#include "accounted_steps.hpp"
#include "options.hpp"
#include "text.hpp"

namespace weft::scaling {

class Training {
 public:
  virtual ~Training() = default;
  Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  virtual void step() = 0;
  virtual std::int64_t steps_done() const = 0;
  /// Of the last step, mean over ranks. Collective.
  virtual double training_loss() = 0;
  /// Of this rank's share of so many batches of every rank. Collective.
  virtual double held_out_loss(std::int64_t batches) = 0;
  virtual double exposed_seconds() const = 0;
  virtual std::uint64_t wire_bytes() const = 0;
  virtual std::int64_t held_bytes() const = 0;
  /// Adds the accounts of the steps since the last call, where there are any. Collective.
  virtual void account(AccountedSteps& /*steps*/) {}
  /// Whose gradients are planned in buckets; null where that is not the whole model's.
  virtual const GradientReducer* reducer() const { return nullptr; }
  /// Of codes, where the strategy chooses.
  virtual std::optional<CodecChoice> choice() const { return {}; }
  /// What was chosen of what the strategy leaves open, for people; empty: nothing.
  virtual std::string explanation() const { return {}; }
};

/// Collective. @param trace may be null
std::unique_ptr<Training> make_training(const std::string& strategy, const Communicator& comm,
                                        const examples::ModelSpec& spec, const Options& options,
                                        const examples::Text& text, std::shared_ptr<Trace> trace);

}  // namespace weft::scaling
