#pragma once
// The messages, gathers, reductions and copies of a predicted schedule, with their times.
//
//   for (const Transfer& one : transfers(plan, problem, simulate(plan, problem, Keep::times)))
//     ... one.device, one.action, one.begin, one.end
//
// A prediction has the times of a device's row only. What the row posts runs while the device computes; here
// it is sent once more over the wires and streams of simulate(), at the times of the prediction. If messages
// of several devices ask for a shared wire in the same nanosecond, their order may differ from simulate()'s.

#include <vector>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline {

struct Transfer {
  int device = 0;
  Action action;  ///< SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, REDUCE_GRAD, OFFLOAD or LOAD
  Nanoseconds begin = 0, end = 0;
};

/// Each message occurs twice, as its sender's and as its receiver's, from when it takes the wire to its
/// arrival; also if the schedule has no entries for it. Transfers that take no time are left out. Sorted by
/// begin.
/// @param prediction with times @throws Error (usage) for one without times or of another schedule
std::vector<Transfer> transfers(const Schedule& schedule, const Problem& problem,
                                const Prediction& prediction);

}  // namespace weft::pipeline
