#pragma once
// What moves beside the computation of a predicted schedule, and when: messages, gathers, reductions, copies.
//
//   for (const Transfer& one : transfers(plan, problem, simulate(plan, problem, Keep::times)))
//     ... one.device, one.action, one.begin, one.end
//
// A prediction has the times of a device's row; what that posts goes on while the device computes. Here it is
// sent once more over the wires and streams of simulate(), by the times of the prediction. Where messages of
// several devices ask for a shared wire in the same nanosecond, their order may be another than there.

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

/// A message is there twice: as its sender's and as its receiver's, from when it takes the wire to its
/// arrival; also where the schedule has no entries for messages. What takes no time is left out. By begin.
/// @param prediction with times @throws Error (usage) for one without times or of another schedule
std::vector<Transfer> transfers(const Schedule& schedule, const Problem& problem,
                                const Prediction& prediction);

}  // namespace weft::pipeline
