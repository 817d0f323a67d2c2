#pragma once
// How short a pipeline's step can be at best: a lower bound that holds for every schedule with this
// placement, and the argument for it, so that another program can check it.
//
//   Certificate floor = lower_bound(problem, device_of, Objective::makespan);
//   best.makespan == floor.bound                       // proved: no schedule is shorter
//   holds(floor, problem, device_of)                   // the argument once more, by code of its own
//
// All arguments look at one device, d, and at what cannot be avoided there. Its first action waits for a
// forward to come through the stages before (head). Before its first input gradient it has only forwards, as
// many as memory holds. While the first microbatch goes to the last stage and back, d is idle when these
// forwards are done (fill). After its last forward it has only the work that memory holds, while that last
// microbatch goes to the last stage and back (drain).
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
// has been to the last stage and back and has made room. So the earliest begin of each microbatch follows
// from those before: rounds. On every later device a forward also goes before or after the input gradient
// that it crosses. If before, the forward that needs the room of that input gradient is late; if after, the
// microbatches behind it are late. See src/pipeline/search/rounds.hpp. What follows after some microbatches
// is a smaller problem of the same kind. So load and stream also hold for the microbatches that are left,
// from when their first can begin.
//
// Warm-ups: with one stage each, a device has nothing but whole forwards before its first input gradient.
// Where these do not fill the time, the device is idle, or it runs one more; then its input gradient waits,
// and with it those of all devices before. Suppose that a step is shorter than the bound. Then no device,
// from the last one on, can be idle for longer than that step allows. So they run one more forward and delay
// their first input gradient. On device d memory holds no further forward, so d is idle for longer than
// allowed: a contradiction.
//
// Cool-downs: the same for the last input gradient. Before it a device has done all forwards, all other input
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
