#pragma once
// Ranks that differ from all others of their communicator, operation after operation. Pure.
//
// All ranks end an all_reduce together, and the time that Inspector writes begins with each rank's own kernel. So a rank whose times are shorter
// than the others' is the last to come: the others wait for it. One whose times are longer comes first, or its own GPU or link holds it up
// after the others have ended.
//
// Each time is divided by the median of its operation, which takes away what all ranks have in common (sizes, congestion, one slow operation).
// The run is cut into blocks of as many operations; a rank has the time-weighted median of its ratios in each. It is named if its median over
// the blocks differs from the ranks' by 1.5 % and by 5.5 times the spread of the ranks' medians and the error of one of them, with the same sign
// in 3 of 4 blocks, from some block to the end. Where more than a quarter of the ranks differ, the job is made of unequal parts, and none is
// named.
//
// WRONG: the mean of a rank's times: a few slow operations, which every job has, hide 3 %.

#include <cstdint>
#include <vector>

#include "weft-report/inspector/job.hpp"

namespace weft::report::inspector {

struct Straggler {
  std::uint32_t member = 0;  ///< in Communicator::members
  double share = 0;          ///< of an operation's time; below 0: it comes last, and others wait
  double seconds = 0;       ///< that it costs over the run: what each of the others waits, or it takes longer
  Kind kind{};              ///< an operation with which it begins to differ
  std::uint32_t since = 0;  ///< the number of that operation
  std::uint32_t when = 0;   ///< seconds since 1970; 0: not known
  bool from_the_start = false;
  std::uint64_t operations = 0;  ///< that were compared
  bool last() const { return share < 0; }
};

/// How a rank compares with the others, whether or not it is named.
struct Compared {
  std::uint32_t member = 0;
  double share = 0;     ///< its median ratio, less the ranks' median
  double shortest = 0;  ///< share of its operations in which no rank had a shorter time: it came last
  std::uint64_t operations = 0;
};

struct Comparison {
  std::vector<Compared> ranks{};        ///< by rank
  std::vector<Straggler> stragglers{};  ///< the most costly first
};

Comparison compare_ranks(const Communicator& one);

/// The same by sorting whole lists and without blocks, of the run as a whole: what tests compare with.
std::vector<double> plain_shares(const Communicator& one);

}  // namespace weft::report::inspector
