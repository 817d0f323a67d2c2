#pragma once
// How short a pipeline's step can be at best: a lower bound that holds for every schedule with this
// placement, and the argument for it, so that another program can check it.
//
//   Certificate floor = lower_bound(problem, device_of, Objective::makespan);
//   best.makespan == floor.bound                       // proved: no schedule is shorter
//   holds(floor, problem, device_of)                   // the argument once more, by code of its own
//
// All arguments look at one device, d, and at what cannot be avoided there. Its first action waits for a
// forward to come through the stages before (head). Before its first input gradient it has nothing but
// forwards, and memory for so many: what of the way there and back they do not fill is idle (fill). After its
// last forward it has only what fits in memory, while that microbatch goes there and back (drain).
//
//   load     head + all the work of d + idle before its first input gradient + idle after its last forward
//   stream   head + all forwards and input gradients of d + the weight gradients that must make room for its
//            last forward + idle before its first input gradient + the way of the last gradient back to the
//            first stage + the weight gradient there
//   rounds   head + when d's last input gradient can be through + its way back + the weight gradient there
//   warm-ups load and stream of all devices together: what d is idle before its first input gradient
//   cool-downs  load of all devices together: what d is idle before its last input gradient
//
// Where memory holds K microbatches and a device has one stage, the forward of microbatch j + K waits until j
// has been there and back and made room. So when each can begin at the earliest follows from those before:
// rounds. What also counts is that on every device beyond, a forward goes before or after the input gradient
// that it meets, and makes late either who needs that one's room or who is behind itself; see
// src/pipeline/search/rounds.hpp. What follows after some microbatches is a smaller problem of the same kind, so
// that load and stream also hold for those that are left, from when their first can begin.
//
// Warm-ups: with one stage each, a device has nothing but whole forwards before its first input gradient.
// Where these do not fill the time it is idle, or it does one more and its input gradient waits, and with it
// those of all devices before. If the step is to be shorter than the bound, then the devices from the last
// one on cannot be idle for longer than it leaves them, so that they put off their first input gradient; d,
// where memory holds no further forward, waits for longer than it may.
//
// Cool-downs: the same of the last input gradient. Before it a device has done all forwards, all other input
// gradients and whole weight gradients, all but one at most.
//
// For the span of a device its own first action is the begin: load without the head; and stream and rounds,
// in which the first stage's device begins and ends.

#include <ostream>
#include <vector>

#include "weft/pipeline/problem.hpp"

namespace weft::pipeline {

enum class Argument { load, stream, rounds, warm_ups, cool_downs };

/// "load", "stream", "rounds", "warm-ups", "cool-downs"
const char* name(Argument argument);

struct Certificate {
  Objective objective = Objective::makespan;
  Nanoseconds bound = 0;
  Argument argument = Argument::load;
  int device = 0;  ///< which the argument is about
  int after = 0;   ///< microbatches in front of those that load and stream are about

  friend bool operator==(const Certificate&, const Certificate&) = default;
  /// "makespan >= 24000 ns: load of device 3", or "..., after 8 microbatches"
  friend std::ostream& operator<<(std::ostream& out, const Certificate& certificate);
};

/// The best of the arguments. Linear in stages, times the logarithm of a forward's nanoseconds, where memory
/// counts times microbatches; and once in microbatches times those that memory holds.
Certificate lower_bound(const Problem& problem, const std::vector<int>& device_of, Objective objective);

/// Whether the argument gives that bound, or a better one: computed anew from its words, without the code
/// above.
bool holds(const Certificate& certificate, const Problem& problem, const std::vector<int>& device_of);

}  // namespace weft::pipeline
