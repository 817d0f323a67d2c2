#pragma once
// What a schedule is drawn up for: stages with what they cost, wires between them, memory.
//
//   Problem problem{.devices = 8, .microbatches = 32, .costs = uniform_costs(8, 1, {.forward = 1'000'000,
//   ...})}; problem.memory_limit.assign(8, 8 * activation);
//
// Times are whole nanoseconds and sizes whole bytes, so that equal means equal: predictions, bounds and the
// gap between them carry no rounding.

#include <cstdint>
#include <vector>

namespace weft::pipeline {

using Nanoseconds = std::int64_t;
using Bytes = std::int64_t;

/// Of one stage and one microbatch.
struct StageCosts {
  Nanoseconds forward = 0;
  Nanoseconds backward_input = 0;
  Nanoseconds backward_weight = 0;
  Bytes activation = 0;  ///< held from the start of its forward; all of it until its input gradient is there
  Bytes kept_for_weight = 0;  ///< the part of it that is held from there to the end of its weight gradient
  Nanoseconds unshard = 0;    ///< gathers its parameters (ZeRO-3)
  Nanoseconds reduce = 0;     ///< sums its gradients over data-parallel ranks
  Nanoseconds copy = 0;       ///< its activation to the host, or back

  Nanoseconds backward() const { return backward_input + backward_weight; }
  Nanoseconds total() const { return forward + backward(); }
  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};

/// Between a stage and the next, for activations there and for gradients back. Costs nothing where both
/// stages are on one device.
struct Hop {
  Nanoseconds latency = 0;    ///< from the end of the send to the arrival: delays, occupies nothing
  Nanoseconds occupancy = 0;  ///< of the wire, bytes over bandwidth: messages that share a wire take turns
  /// Hops with the same number share a wire in that direction (such as a host's one port). -1: the messages
  /// between two devices in one direction share one of their own.
  int wire_forward = -1, wire_backward = -1;

  Nanoseconds delay() const { return latency + occupancy; }
  friend bool operator==(const Hop&, const Hop&) = default;
};

struct Costs {
  std::vector<StageCosts> stages;
  std::vector<Hop> hops;  ///< hops[s] lies between s and s + 1: one less than stages

  friend bool operator==(const Costs&, const Costs&) = default;
};

/// What is to be short.
enum class Objective : std::uint8_t {
  makespan,  ///< first start to last end over all devices: where a step ends in something that all wait for
  span,  ///< the longest first start to last end of one device: where steps may follow each other device by
         ///< device
};

/// "makespan", "span"
const char* name(Objective objective);

struct Problem {
  int devices = 0;
  int microbatches = 0;
  Costs costs;                        ///< of devices x chunks stages
  std::vector<Bytes> memory_limit{};  ///< of each device; empty: no limit

  int stages() const { return static_cast<int>(costs.stages.size()); }
  int chunks() const { return stages() / devices; }
};

/// Stages that are alike. @param whole_device costs of all the chunks of a device together; each chunk has
/// its part of them (rounded so that they add up)
Costs uniform_costs(int devices, int chunks, const StageCosts& whole_device, const Hop& hop = {});

/// The same model in fewer stages: neighbours are joined. @throws Error (usage) unless `stages` divides
/// theirs
Costs joined(const Costs& costs, int stages);

/// @throws Error (usage), which names stage or device and value: a count or a cost below what is possible
/// (costs are 1 ns or more, delays and sizes 0), stages that are no multiple of devices, a limit below what
/// one microbatch takes
void expect_valid(const Problem& problem, const std::vector<int>& device_of);

}  // namespace weft::pipeline
