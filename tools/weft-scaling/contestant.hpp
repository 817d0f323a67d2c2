#pragma once
// One strategy in training, with its measurements. Everything but the plain getters is collective.

#include <chrono>
#include <string>
#include <vector>

#include "measure.hpp"
#include "training.hpp"

namespace weft::scaling {

double seconds_since(std::chrono::steady_clock::time_point begin);
/// A quantile; interpolates between two values.
double quantile(std::vector<double> values, double share);
/// The means of whole turns of `period` values, counted from the first value, that begin at `first` or later; of all from `first` on, if
/// no turn is whole.
std::vector<double> means_of_turns(const std::vector<double>& values, std::ptrdiff_t first,
                                   std::ptrdiff_t period);
double mean(const std::vector<double>& values);
/// The number of every rank, by rank. Collective.
std::vector<double> gather(Communicator comm, double mine);
/// The mean over the ranks of each number. Collective.
std::vector<double> mean_of_ranks(Communicator comm, std::vector<double> mine);
/// A communicator of this rank alone, on the same device. Collective.
Communicator alone(Communicator comm);

/// Batches of each rank in a measurement of the loss: few during training; at its end, where runs are
/// compared, as many as the held-out tenth of the licences has on 2 ranks.
constexpr std::int64_t batches_between = 4;
constexpr std::int64_t batches_at_end = 32;

class Contestant {
 public:
  /// @param spec may have a different batch than the model of that name
  /// @param trace records what the compute stream works on; may be null
  Contestant(std::string strategy, const Communicator& comm, const examples::ModelSpec& spec,
             const Options& options, const examples::Text& text, std::shared_ptr<Trace> trace);

  /// Goes on from the newest checkpoint, if there is one.
  void resume(examples::Checkpoints& checkpoints);
  /// @returns false where a notice to end came, and all is saved
  bool train(std::int64_t steps, examples::Checkpoints& checkpoints, tool::Progress& progress);
  /// Every rank evaluates its share of the same held-out sequences.
  double held_out_loss(std::int64_t batches = batches_between) { return training_->held_out_loss(batches); }
  double mean_training_loss() { return training_->training_loss(); }
  /// Whether there is a result yet.
  bool has_result() const { return std::ssize(seconds_) > first_counted_; }
  /// The result of the training so far.
  Run result(double last_loss);

  std::int64_t steps_done() const { return training_->steps_done(); }
  const std::string& strategy() const { return strategy_; }
  /// Steps between two points of the loss curve.
  std::int64_t next_point = 0;
  double first_loss = 0;
  std::vector<Run::LossPoint> curve;

 private:
  std::string strategy_;
  Communicator comm_;
  std::shared_ptr<Trace> trace_;
  double predictions_;
  std::int64_t all_steps_;
  std::int64_t first_counted_;
  std::unique_ptr<Training> training_;
  std::vector<double> seconds_;
  std::vector<double> exposed_;
  std::vector<double> wire_bytes_;
  AccountedSteps accounted_;
};

}  // namespace weft::scaling
