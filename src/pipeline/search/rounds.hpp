#pragma once
// When a device can begin its forwards and have its input gradients through, at the earliest, where memory
// holds fewer microbatches than there are: microbatch by microbatch, for the lower bound. Devices have one
// stage each.
//
// All microbatches cost the same, so a statement about the n-th forward holds whichever microbatch that is.
//
//   room      The forward of n begins when the input gradient of n - K is through, where K fit in memory, and
//             either the weight gradients that must make room or more input gradients. Between any earlier
//             input gradient and this forward the device does as many of all three.
//   way       From a forward's start a microbatch goes to the last device and back, where all microbatches
//             that entered after some earlier one take turns.
//   crossing  On a device beyond, the forward of j comes before the input gradient of an earlier i, or after
//             it. If before, i waits for j to get there, and with i the microbatch that needs its room. If after, j goes
//             on from where i turned back, and all behind j with it. One of the two holds, so the lower value is a bound.
//
// Times count from the start of the device's first forward.

#include <cstdint>
#include <vector>

#include "weft/pipeline/problem.hpp"

namespace weft::pipeline::detail {

class Rounds {
 public:
  /// @param stage of the device
  /// @param limit the device's memory, which holds less than all microbatches
  /// @param crossings without them it takes time linear in microbatches, otherwise times those that memory holds
  Rounds(const Problem& problem, std::size_t stage, Bytes limit, bool crossings);

  Nanoseconds begin(std::size_t microbatch) const { return begin_[microbatch]; }
  /// End of the last input gradient.
  Nanoseconds end() const { return through_.back(); }

 private:
  void set_ways(const Costs& costs, std::size_t stage);
  void set_work_between(std::size_t count);
  std::int64_t weights_free(std::size_t more) const;
  Nanoseconds room(std::size_t n);
  Nanoseconds crossing(Nanoseconds if_before, Nanoseconds if_after) const;
  void cross_begin(std::size_t n);
  void cross_end(std::size_t n);

  StageCosts own_;
  std::int64_t count_;  // of microbatches
  std::size_t held_;    // microbatches in memory
  Bytes spare_;         // what they leave of it
  Nanoseconds last_;    // forward and input gradient on the last device
  Nanoseconds way_;     // there and back, both ends included
  // By device, this one first: the way there and back; and from an input gradient's end on the last device
  // the way to it, and another forward's way from there to the last device with its input gradient.
  std::vector<Nanoseconds> near_, far_;
  std::vector<Nanoseconds> between_;  // from an input gradient's end to the K + h-th forward after it, by h
  std::vector<Nanoseconds> begin_, through_;
  // Work that has queued up here since some input gradient, with weight gradients and without; on the last
  // device.
  Nanoseconds all_, pairs_, on_last_ = 0;
};

}  // namespace weft::pipeline::detail
