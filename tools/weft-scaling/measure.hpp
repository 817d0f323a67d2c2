#pragma once
// Trains under each strategy, in turns, and gathers the times of all ranks.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accounted_steps.hpp"
#include "common/progress.hpp"
#include "options.hpp"
#include "weft-scaling/gpt/data/text.hpp"
#include "weft/weft.hpp"

namespace weft::scaling {

/// One row of the result.
struct Run {
  std::string strategy;
  int ranks = 1;
  double median_seconds = 0;     ///< one step; mean of the medians of the ranks
  double p99_seconds = 0;        ///< of the slowest rank
  double tokens_per_second = 0;  ///< of all ranks
  std::optional<double> efficiency_vs_nocomm;
  /// Speed per rank, as a share of one rank alone on the machine.
  std::optional<double> efficiency_vs_single;
  double exposed_seconds = 0;           ///< per step, mean over ranks
  StepParts parts;                      ///< the account of a step; see weft/gradient/step_account.hpp
  std::optional<double> bound_seconds;  ///< lower bound of a step, if a rate is given
  double wire_bytes_per_step = 0;       ///< payload that one rank sends; mean over ranks
  std::int64_t peak_bytes_per_rank = 0;
  double first_loss = 0;  ///< held out, before the first step
  double last_loss = 0;   ///< held out, after the last step, over more sequences than the curve
  struct LossPoint {
    std::int64_t step;
    double held_out;
  };
  std::vector<LossPoint> curve;       ///< held-out loss over the steps
  std::string explanation;            ///< the executed schedule of a pipeline; else empty
  std::optional<CodecChoice> choice;  ///< of `auto`; none if every step had NaN
  /// Each measured step in order of time, mean over ranks. Empty in a sweep.
  std::vector<double> samples;
};

/// Called on every rank during training.
struct Heard {
  std::function<void(const std::string& strategy, std::int64_t step, double training_loss,
                     double held_out_loss)>
      loss;
  /// The result of the steps so far, whenever there are a tenth more: a signal leaves the last of them. Its last losses are the curve's.
  std::function<void(std::int64_t step, const std::vector<Run>& runs)> so_far;
  tool::Progress& progress;
};

/// What was measured.
struct Measured {
  std::vector<Run> runs;                    ///< none where a checkpoint had all steps
  std::int64_t steps_before = 0;            ///< that a checkpoint had
  std::optional<std::int64_t> told_to_end;  ///< after so many steps: all is saved, and there are no runs
};

/// Collective. The same result on every rank. @param trace records what the strategies compute; may be null
Measured measure(const Communicator& comm, const Options& options, const examples::Text& text,
                 const Heard& heard, const std::shared_ptr<Trace>& trace);

}  // namespace weft::scaling
