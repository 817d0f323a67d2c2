#pragma once
// The input of every schedule: how many devices and microbatches there are, what stages and hops cost, and
// how much memory a device has.
//
//   Problem problem{.devices = 8, .microbatches = 32};
//   problem.costs = uniform_costs(8, 1, {.forward = 1'000'000, .backward_input = 1'000'000, ...});
//   problem.memory_limit.assign(8, 8 * activation);
//
// Times are whole nanoseconds and sizes whole bytes, so that predictions, bounds and the gap between them
// carry no rounding.

#include <cstdint>
#include <vector>

namespace weft::pipeline {

using Nanoseconds = std::int64_t;
using Bytes = std::int64_t;

/// The costs of one stage for one microbatch.
struct StageCosts {
  Nanoseconds forward = 0;
  Nanoseconds backward_input = 0;
  Nanoseconds backward_weight = 0;
  Bytes activation = 0;       ///< held from the start of its forward to the end of its input gradient
  Bytes kept_for_weight = 0;  ///< the part of it that is held on to the end of its weight gradient
  Nanoseconds unshard = 0;    ///< gathers its parameters (ZeRO-3)
  Nanoseconds reduce = 0;     ///< sums its gradients over data-parallel ranks
  Nanoseconds copy = 0;       ///< copies its activation to the host, or back

  Nanoseconds backward() const { return backward_input + backward_weight; }
  Nanoseconds total() const { return forward + backward(); }
  friend bool operator==(const StageCosts&, const StageCosts&) = default;
};

/// The way between a stage and the next, for activations forward and gradients back. It costs nothing where
/// both stages are on one device.
struct Hop {
  Nanoseconds latency = 0;    ///< from the end of the send to the arrival; the wire is free meanwhile
  Nanoseconds occupancy = 0;  ///< how long a message has the wire: bytes over bandwidth
  /// Hops with the same number share a wire in that direction, such as a host's one port. -1: the messages
  /// from one device to another have a wire of their own.
  int wire_forward = -1, wire_backward = -1;

  Nanoseconds delay() const { return latency + occupancy; }
  friend bool operator==(const Hop&, const Hop&) = default;
};

struct Costs {
  std::vector<StageCosts> stages;
  std::vector<Hop> hops;  ///< hops[s] lies between s and s + 1: one less than stages

  friend bool operator==(const Costs&, const Costs&) = default;
};

/// The length that is to be minimized.
enum class Objective : std::uint8_t {
  /// From the first start to the last end over all devices. It counts if a step ends in something that all
  /// devices wait for.
  makespan,
  /// The longest time from the first start to the last end of one device. It counts if each device may begin
  /// the next step by itself.
  span,
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

/// Costs of equal stages. @param whole_device costs of all chunks of a device together; they are divided
/// among the chunks, rounded so that they add up
Costs uniform_costs(int devices, int chunks, const StageCosts& whole_device, const Hop& hop = {});

/// The same model in fewer stages, by joining neighbours. @throws Error (usage) unless `stages` divides their
/// number
Costs joined(const Costs& costs, int stages);

/// @throws Error (usage), which names stage or device and value. It refuses a count or a cost that is too
/// small (costs are 1 ns or more, delays and sizes 0 or more). It also refuses a number of stages that is no
/// multiple of the devices, and a memory limit below one microbatch
void expect_valid(const Problem& problem, const std::vector<int>& device_of);

}  // namespace weft::pipeline
