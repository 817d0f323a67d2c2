#pragma once
// Finds a setting that is faster than what there is, in few runs of a command that is measured in noise.
//
// 1. Choices of variables, alone and together, take turns with the unchanged command. The slower half is left out, again and again.
// 2. The best that is left is compared with what there is, in pairs. It is kept if the interval of the ratio shows a gain; then each of its variables
//    has to show one, too, against the choice without it. All first comparisons of a search together are wrong in at most 5 of 100 searches.
// 3. Then the algorithms, each for all sizes, over the variables that were kept: halved as before, put together by size, and compared as a whole. A
//    range of sizes whose own interval shows no gain falls back to the library's choice.
//
//   const Tuning result = search(space, effort_for(space, 90), 1, [&](const Setting& setting) { return run(setting); }, show);
//
// What a candidate is worth is the mean over sizes of the logarithm of its time, divided by that of the other run of its turn.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft-report/tuning/bench_rows.hpp"
#include "weft-report/tuning/interval.hpp"
#include "weft-report/tuning/space.hpp"

namespace weft::report::tuning {

/// One run: times, or why there are none.
struct Outcome {
  std::vector<Timing> rows{};
  std::string problem{};
};

/// How often things are run.
struct Effort {
  int rounds = 2;  ///< of the last halving; each before it has one
  int pairs = 10;  ///< of each comparison; twice as many where these do not decide
};

/// The most runs that a search takes.
int most_trials(const Space& space, const Effort& effort);
/// The largest effort whose runs are at most `trials`; if none is, the smallest.
Effort effort_for(const Space& space, int trials);

/// A comparison with what was kept until then.
struct Step {
  std::string change{};  ///< "NCCL_BUFFSIZE=8388608", "tree/ll from 0 B to 65536 B"
  Interval ratio{};      ///< logarithms, each end with 0.975
  int pairs = 0;
  bool kept = false;
};

struct Tuning {
  Setting kept{};
  std::vector<Step> steps{};
  std::vector<std::string> notes{};  ///< candidates that were dropped, and why
  int trials = 0;
  bool complete = false;
};

/// @return none: there is no time for another run
using Measure = std::function<std::optional<Outcome>(const Setting&)>;
/// Called with every change of what is known.
using Watch = std::function<void(const Tuning&)>;

/// @param seed of the order in which candidates take turns. @throws Error (usage) if the unchanged command is no measurement
Tuning search(const Space& space, const Effort& effort, std::uint64_t seed, const Measure& measure,
              const Watch& watch);

}  // namespace weft::report::tuning
