#pragma once
// The same training on a growing number of ranks: weak scaling (every rank keeps its batch) and strong
// scaling (all ranks share the batch of one).

#include "measure.hpp"

namespace weft::scaling {

struct SweepRun {
  bool strong = false;
  Run run;
  /// Tokens per second of a rank, as a share of the smallest number of ranks measured; above it nothing
  /// scales.
  double efficiency = 1;
};

/// @throws Error (usage) if there are fewer ranks, or a batch cannot be divided by them
void check_sweep(const Options& options, int ranks);

/// Collective over `comm`; ranks that do not take part sleep. The same result on every rank. @param say gets
/// the progress, on rank 0
std::vector<SweepRun> sweep(Communicator comm, const Options& options, const examples::Text& text,
                            tool::Progress& progress, const std::function<void(const SweepRun&)>& say);

}  // namespace weft::scaling
