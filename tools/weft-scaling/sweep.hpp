#pragma once
// The same training on ever more of the ranks: weak scaling (every rank keeps its batch) and strong scaling
// (all ranks share the batch of one).

#include "measure.hpp"

namespace weft::scaling {

struct SweepRun {
  bool strong = false;
  Run run;
  /// Tokens per second of a rank, as a share of the smallest number of ranks measured; above it nothing
  /// scales.
  double efficiency = 1;
};

/// What would be refused. @throws Error (usage): more ranks than there are, or a batch that they cannot share
void check_sweep(const Options& options, int ranks);

/// Collective over `comm`: ranks that are not asked sleep. The same result on every rank. @param say
/// progress, on rank 0
std::vector<SweepRun> sweep(Communicator comm, const Options& options, const examples::Text& text,
                            const std::function<void(const SweepRun&)>& say);

}  // namespace weft::scaling
