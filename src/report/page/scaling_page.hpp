#pragma once
// One page that shows what a run of weft-scaling measured: the verdict in a sentence, the figures, where a
// step goes, how communication overlaps, how it scales, how steps vary, what is learned, and what changed
// since an earlier run.
//
// A self-contained HTML document: style and drawings are inline, there are no scripts and nothing is fetched
// (its own policy forbids both). It follows the reader's light or dark, prints, and fits a telephone. Colours
// never stand alone: whatever is drawn is also named, hatched or shaped, and stands as a figure beside.
//
// Pure: values in, text out; the caller measures and writes the file. Any thread.
//
//   ScalingPage page{.title = "gpt-ref, 4 ranks, host (shared memory)"};
//   page.strategies.push_back({.name = "ddp", .step_seconds = 0.263, ...});
//   tool::write("run.html", to_html(page));
//
// What was not measured stays 0 or empty, and is then not shown: no timeline, no section about it.
// WRONG: escaping names before they go in; the page escapes everything it is given.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/page/comparison.hpp"

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
    double tokens_per_second = 0;  ///< of all ranks
    std::optional<double> efficiency_vs_nocomm;
    std::optional<double> efficiency_vs_single;
    // Where a median step goes, mean over ranks: compute + overlapped + exposed = step.
    double compute_seconds = 0;     ///< computing while nothing is on the wire
    double overlapped_seconds = 0;  ///< computing while the wire is busy
    double exposed_seconds = 0;     ///< the compute stream waited
    double link_busy_seconds = 0;
    double slowest_seconds = 0;       ///< part of the waiting: until the slowest rank came
    std::optional<int> slowest_rank;  ///< the rank most often waited for
    double wire_bytes = 0;            ///< payload that one rank sends, per step
    double peak_bytes = 0;            ///< held by a rank
    double first_loss = 0;
    double last_loss = 0;
    std::vector<double> samples;        ///< seconds of each step that counts
    bool compressed = false;            ///< gradients travel in a code, which loses something
    std::vector<LossPoint> curve = {};  ///< by step; drawn where it has two points or more
  };

  /// Of one step. Times are seconds from its beginning.
  struct Span {
    int rank = 0;
    std::string track;  ///< "compute", "wire" or "waiting"; others are drawn after these
    std::string name;   ///< what stands before a colon is the kind: "backward: block3.attention"
    double begin = 0;
    double end = 0;
  };

  /// Of a sweep over numbers of ranks.
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
  std::vector<Point> scaling;
  std::optional<Comparison> comparison;
};

/// One sentence for who reads no further. Plain text.
std::string verdict(const ScalingPage& page);

std::string to_html(const ScalingPage& page);

}  // namespace weft::report
