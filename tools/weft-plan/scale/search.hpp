#pragma once
// The fastest plans for a model on so many GPUs. Every plan that divides gets a bound below its time, at no
// more cost than its layers' kernels. Plans are then looked at in the order of their bounds, until no bound is
// below the last of the best: those whose least memory fits are predicted.
//
//   const Search found = search(model, hardware, space_of(model, hardware, plan, {}), 10);
//   found.best.front().plan, found.best[1].loses_by ...
//
// Plain values, any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "weft-plan/scale/step.hpp"

namespace weft::scale {

/// The values that are tried. All of them are combined; what does not divide is counted, and left out.
struct Space {
  Plan base;  ///< what is the same in all plans
  std::vector<std::int64_t> tensor{}, pipeline{}, virtual_stages{}, micro_batch{};
  std::vector<int> zero{};
  std::vector<Recompute> recompute{};
  std::vector<bool> sequence_parallel{};
};

/// What the user has given, and what is therefore not searched.
struct Fixed {
  bool tensor = false, pipeline = false, virtual_stages = false, micro_batch = false, zero = false,
       recompute = false, sequence_parallel = false;
};

Space space_of(const Model& model, const Hardware& hardware, const Plan& plan, const Fixed& fixed);

struct Candidate {
  Plan plan;
  Step step;
  std::string loses_by{};    ///< the part that costs it most beside the best: "bubble"; empty for the best
  double loses_seconds = 0;  ///< in that part
  double faster =
      0;  ///< how many times as fast that part would have to be for it to win; 0: that is not enough
};

struct Search {
  std::vector<Candidate> best;  ///< the fastest first; all fit the memory
  std::int64_t plans = 0;       ///< that divide
  std::int64_t too_large = 0;   ///< of those that were looked at
  std::int64_t predicted = 0;
};

/// @param most how many of the best. @throws Error (usage) if no plan divides
Search search(const Model& model, const Hardware& hardware, const Space& space, std::size_t most);

}  // namespace weft::scale
