#pragma once
// Did a step become faster? Compares the steps of two runs, strategy by strategy.
//
// The figure is the ratio of the median steps, after / before, with a 95 % interval. A verdict other than
// "unchanged" needs the whole interval beyond the tolerance: machines are shared, and a per cent is not worth
// a change of mind. The interval knows how steps vary within the two runs; what differs between any two runs
// of the same program (other neighbours on the machine, another hour) it cannot know. Of few steps it is a
// little too narrow: of 37, as 40 steps leave, it holds the truth about nine times in ten.
//
// Pure: the same samples give the same comparison, on any machine. Any thread.
//
//   Comparison now = compare("monday.json", before, after);
//   std::cout << to_text(now);       // ddp: 0.974 (0.965 to 0.982) of the earlier step: improved
//
// WRONG: samples in sorted order. Neighbours in time resemble each other, and the method counts on seeing it.

#include <cstdint>
#include <string>
#include <vector>

namespace weft::report {

struct Samples {
  std::string strategy;
  std::vector<double> seconds;  ///< of each step that counts, in the order of time
};

enum class Verdict : std::uint8_t { improved, unchanged, worse };

const char* name(Verdict verdict) noexcept;

struct Comparison {
  struct Row {
    std::string strategy;
    double before_seconds = 0;  ///< median of the samples
    double after_seconds = 0;
    double ratio = 1;  ///< after / before
    double low = 1;    ///< the interval's ends
    double high = 1;
    Verdict verdict = Verdict::unchanged;
  };

  std::string earlier;  ///< what the earlier run is called, such as its file
  std::vector<Row> rows;
  std::vector<std::string> only_before;  ///< strategies that the later run lacks
  std::vector<std::string> only_after;
};

/// Ratios this close to 1 are no change.
inline constexpr double tolerance = 0.01;
/// Three blocks: of fewer the resamples hardly differ, and the interval would claim a certainty it has not.
inline constexpr std::size_t fewest_samples = 15;

/// Rows in the order of `after`. @throws Error (usage) for a strategy of both with too few samples, or with
/// one that is no time
Comparison compare(std::string earlier, const std::vector<Samples>& before,
                   const std::vector<Samples>& after);

/// Whether nocomm has a verdict other than unchanged: it sends nothing, so then the machine or the computing
/// changed, and the other rows say little about communication.
bool computing_changed(const Comparison& comparison);

/// A line for each strategy.
std::string to_text(const Comparison& comparison);

}  // namespace weft::report
