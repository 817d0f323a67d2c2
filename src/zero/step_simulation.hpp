#pragma once
// What steps of stage 3 should take: the calls of every rank's trainer with what it computed between them,
// replayed against a link that carries gathers and reductions as fast as they were measured.
//
// Groups are fetched ahead into as many slots, gradients wait for places in as many windows, and buckets are
// reduced in the same order as in a real step; but calls cost nothing, nobody waits for a core, and a
// transfer takes what it takes alone, or twice as long while one of the other kind is on its way. What a step
// takes beyond this is weft's own doing.

#include <vector>

#include "zero/params_plan.hpp"

namespace weft::detail {

/// A step of one rank, up to the optimizer.
struct StepTape {
  enum class Call {
    use,    ///< of a group
    done,   ///< with it
    place,  ///< for a parameter's gradient
    ready   ///< that gradient
  };
  struct Entry {
    Call call;
    int of;              ///< group or parameter
    double seconds = 0;  ///< computed before the call
  };
  std::vector<Entry> entries;
  double rest_seconds = 0;    ///< computed after the last call
  double update_seconds = 0;  ///< of the optimizer; buckets take it by their sizes
};

/// Of every bucket, from the last rank's call until all have it, alone on the link.
struct WireSeconds {
  std::vector<double> gather;
  std::vector<double> reduce;
};

struct SimulatedSteps {
  std::vector<double> ends;  ///< of each step, when the last rank was there; from the begin of the first
  double for_groups = 0;     ///< seconds that a rank waited in the mean, in all steps
  double for_places = 0;
  double for_means = 0;
};

/// @param plan of stage 3 @param tapes by rank and step; the same calls on all ranks
/// @throws Error (usage) where ranks differ, or wait for what nobody sends
SimulatedSteps simulate_steps(const ParamsPlan& plan, const std::vector<std::vector<StepTape>>& tapes,
                              const WireSeconds& wire);

}  // namespace weft::detail
