#pragma once
// One page that shows what a run of weft-scaling measured: the verdict in a sentence, the figures, where a
// step goes, how communication overlaps, how it scales, how steps vary, what is learned, and what changed
// since an earlier run.
//
// A self-contained HTML document: style and drawings are inline, there are no scripts and nothing is fetched
// (its content security policy forbids both). It follows the reader's light or dark theme, prints, and fits a
// telephone. Colour is never the only sign: everything drawn is also named, hatched or shaped, and stands in
// a table.
//
// Pure: values in, text out; the caller measures and writes the file. Any thread.
//
//   ScalingPage page{.title = "gpt-ref, 4 ranks, host (shared memory)"};
//   page.strategies.push_back({.name = "ddp", .step_seconds = 0.263, ...});
//   std::ofstream("run.html") << to_html(page);
//
// A value that was not measured stays 0 or empty and is not shown: without a timeline there is no such
// section.
// WRONG: escaping names before they go in; the page escapes everything.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft-scaling/pages/comparison.hpp"

namespace weft::report {

struct ScalingPage {
  struct LossPoint {
    std::int64_t step = 0;
    double held_out = 0;
  };

  struct Strategy {
    std::string name;
    double step_seconds = 0;  ///< median
    double p99_seconds = 0;
    double tokens_per_second = 0;  ///< all ranks together
    std::optional<double> efficiency_vs_nocomm;
    std::optional<double> efficiency_vs_single;
    // Where a median step goes, mean over ranks: compute + overlapped + exposed = step.
    double compute_seconds = 0;     ///< computing while nothing is on the wire
    double overlapped_seconds = 0;  ///< computing while the wire is busy
    double exposed_seconds = 0;     ///< the compute stream waited
    double link_busy_seconds = 0;
    double slowest_seconds = 0;       ///< part of the waiting: until the slowest rank arrived
    std::optional<int> slowest_rank;  ///< the rank most often waited for
    double wire_bytes = 0;            ///< payload that one rank sends, per step
    double peak_bytes = 0;            ///< held by a rank
    double first_loss = 0;
    double last_loss = 0;
    std::vector<double> samples;        ///< seconds of each measured step
    bool compressed = false;            ///< gradients are sent by a lossy codec
    std::vector<LossPoint> curve = {};  ///< by step; drawn where it has two points or more
  };

  /// A part of one step. Times are seconds from the beginning of the step.
  struct Span {
    int rank = 0;
    std::string track;  ///< "compute", "wire" or "waiting"; others are drawn after these
    std::string name;   ///< the part before a colon is the kind: "backward: block3.attention"
    double begin = 0;
    double end = 0;
  };

  /// One row of a sweep over numbers of ranks.
  struct Point {
    std::string scaling;  ///< "weak" or "strong"
    int ranks = 1;
    double efficiency = 1;
    double step_seconds = 0;
    double tokens_per_second = 0;
  };

  std::string title;                                       ///< "gpt-ref, 4 ranks, host (shared memory)"
  std::vector<std::pair<std::string, std::string>> facts;  ///< what was run, when, by which command
  std::vector<Strategy> strategies;
  std::vector<Span> timeline;
  std::string timeline_of{};  ///< the strategy whose last step it is
  std::vector<Point> scaling;
  std::optional<Comparison> comparison;
};

/// The result in one sentence. Plain text.
std::string verdict(const ScalingPage& page);

std::string to_html(const ScalingPage& page);

}  // namespace weft::report
