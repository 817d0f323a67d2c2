#pragma once
// Trains under each strategy, in turns, and gathers every rank's times.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accounted_steps.hpp"
#include "options.hpp"
#include "text.hpp"
#include "weft/weft.hpp"

namespace weft::scaling {

/// One row of the result. Times are this machine's; see README.md for how to read them.
struct Run {
  std::string strategy;
  int ranks = 1;
  double median_seconds = 0;     ///< of a step; mean of the ranks' medians
  double p99_seconds = 0;        ///< worst rank's
  double tokens_per_second = 0;  ///< of all ranks
  std::optional<double> efficiency_vs_nocomm;
  std::optional<double> efficiency_vs_single;  ///< per rank, of one rank that has the machine to itself
  double exposed_seconds = 0;                  ///< per step, mean over ranks
  StepParts parts;                             ///< the account of a step; see weft/gradient/step_account.hpp
  std::optional<double> bound_seconds;         ///< what no step can be shorter than, where a rate is given
  double wire_bytes_per_step = 0;              ///< one rank's payload; mean over ranks
  std::int64_t peak_bytes_per_rank = 0;
  double first_loss = 0;  ///< held out, before the first step
  double last_loss = 0;   ///< held out, after the last, of more sequences than the curve
  struct LossPoint {
    std::int64_t step;
    double held_out;
  };
  std::vector<LossPoint> curve;       ///< between them, too
  std::string explanation;            ///< of a pipeline: what it executed; empty elsewhere
  std::optional<CodecChoice> choice;  ///< of auto; none while every step brought NaN
  /// Of each step that counts, in the order of time; mean over ranks. Of a sweep: none.
  std::vector<double> samples;
};

/// Called on rank 0 as training goes on.
struct Progress {
  std::function<void(const std::string& strategy, std::int64_t step, double training_loss,
                     double held_out_loss)>
      loss;
};

/// Collective. The same result on every rank. @param trace of what the strategies compute; may be null
std::vector<Run> measure(const Communicator& comm, const Options& options, const examples::Text& text,
                         const Progress& progress, const std::shared_ptr<Trace>& trace);

}  // namespace weft::scaling
