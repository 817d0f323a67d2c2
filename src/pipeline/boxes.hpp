#pragma once
// What a drawing shows of a device's row: boxes of computation, small neighbours as one, and what it waits
// for in between.

#include <cstdint>
#include <vector>

#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline::detail {

struct Box {
  std::size_t first = 0, last = 0;  ///< entries of the row
  std::int64_t actions = 1;         ///< of computation, in it
  std::size_t shown = 0;            ///< the longest of them, whose kind the box has
  Nanoseconds begin = 0, end = 0;
};

/// F, B, I, W and RECOMPUTE that take time, in their order. Neighbours shorter than `grain` become one box,
/// which then has `grain` at least unless idle time of that length, or a longer action, follows. 0: no box is
/// of more than one.
std::vector<Box> boxes(const Schedule& schedule, const Prediction& prediction, std::size_t device,
                       Nanoseconds grain);

/// Entries that the device waited in for a gather, a reduction or a copy, for `least` or longer: their number
/// and when the wait began.
struct Wait {
  std::size_t entry = 0;
  Nanoseconds begin = 0, end = 0;
};
std::vector<Wait> waits(const Schedule& schedule, const Prediction& prediction, std::size_t device,
                        Nanoseconds least);

}  // namespace weft::pipeline::detail
