#pragma once
// Compares the step times of two runs, strategy by strategy, and says whether a step became faster.
//
// The figure is the ratio of the median steps, after / before, with a 95 % interval. A verdict other than
// "unchanged" needs the whole interval beyond the tolerance, because a difference of one per cent is common
// on shared machines. The interval covers how steps vary within the two runs. It does not cover what differs
// between any two runs of the same program (other load on the machine, another hour). For few steps it is a
// little too narrow: with 37 steps, as 40 leave, it holds the truth about nine times in ten.
//
// Method: a block bootstrap. Each of up to 10,000 resamples draws blocks of 5 neighbouring steps from both
// runs and takes the ratio of the medians; the interval is the 2.5th to 97.5th percentile of the ratios.
//
// Pure: the same samples give the same comparison, on any machine. Any thread.
//
//   Comparison now = compare("monday.json", before, after);
//   std::cout << to_text(now);       // ddp: 0.974 (0.965 to 0.982) of the earlier step: improved
//
// WRONG: samples in sorted order. Steps that are close in time resemble each other; the method relies on it.

#include <cstdint>
#include <string>
#include <vector>

namespace weft::report {

struct Samples {
  std::string strategy;
  std::vector<double> seconds;  ///< of each measured step, in order of time
};

enum class Verdict : std::uint8_t { improved, unchanged, worse };

const char* name(Verdict verdict) noexcept;

struct Comparison {
  struct Row {
    std::string strategy;
    double before_seconds = 0;  ///< median of the samples
    double after_seconds = 0;
    double ratio = 1;  ///< after / before
    double low = 1;    ///< ends of the interval
    double high = 1;
    Verdict verdict = Verdict::unchanged;
  };

  std::string earlier;  ///< name of the earlier run, such as its file
  std::vector<Row> rows;
  std::vector<std::string> only_before;  ///< strategies that the later run lacks
  std::vector<std::string> only_after;
};

/// A ratio this close to 1 is no change.
inline constexpr double tolerance = 0.01;
/// Three blocks: with fewer, resamples hardly differ and the interval would be far too narrow.
inline constexpr std::size_t fewest_samples = 15;

/// Rows in the order of `after`. @throws Error (usage) if a strategy of both runs has too few samples, or one
/// that is not a positive time
Comparison compare(std::string earlier, const std::vector<Samples>& before,
                   const std::vector<Samples>& after);

/// Whether nocomm has a verdict other than unchanged. It sends nothing, so the machine or the computation
/// changed, and the other rows say little about communication.
bool computing_changed(const Comparison& comparison);

/// A line for each strategy.
std::string to_text(const Comparison& comparison);

}  // namespace weft::report
