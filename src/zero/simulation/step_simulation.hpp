#pragma once
// How long steps of stage 3 should take: replays the recorded calls and compute times of every rank's trainer
// against a link that carries gathers and reductions as fast as they were measured.
//
// Gather buffers, prefetching, the bucket ring and the order of reductions are the same as in a real step. But
// calls cost nothing, no rank waits for a core, and a transfer takes its own time, or twice that while a
// transfer of the other kind is under way. A real step's time beyond the simulated one is weft's overhead.
//
// A discrete-event simulation: let every rank proceed as far as it can, then advance the clock to the next
// end of a computation or transfer. bench_gathering and a test use it; it is a library of its own and not
// installed.

#include <vector>

#include "zero/plan/params_plan.hpp"

namespace weft::detail {

/// The recording of one rank's step, up to the optimizer.
struct StepTape {
  enum class Call {
    use,    ///< gather a unit
    done,   ///< release it
    place,  ///< ask where to write a parameter's gradient
    ready   ///< mark that gradient ready
  };
  struct Entry {
    Call call;
    int of;              ///< unit or parameter
    double seconds = 0;  ///< computed before the call
  };
  std::vector<Entry> entries;
  double rest_seconds = 0;    ///< computed after the last call
  double update_seconds = 0;  ///< the optimizer's; divided among buckets by their sizes
};

/// Seconds of every bucket's transfer alone on the link, from the last rank's call until all ranks have it.
struct WireSeconds {
  std::vector<double> gather;
  std::vector<double> reduce;
};

struct SimulatedSteps {
  std::vector<double> ends;  ///< when the last rank ended each step, counted from the first step's begin
  double for_units = 0;      ///< seconds that a rank waited for gathers, the mean of ranks, in all steps
  double for_places = 0;     ///< for a place in the bucket ring
  double for_means = 0;      ///< for averaged gradients
};

/// @param plan of stage 3 @param tapes by rank and step; the same calls on all ranks
/// @throws Error (usage) if ranks' calls differ, or a rank waits for a transfer that another never posts
SimulatedSteps simulate_steps(const ParamsPlan& plan, const std::vector<std::vector<StepTape>>& tapes,
                              const WireSeconds& wire);

}  // namespace weft::detail
