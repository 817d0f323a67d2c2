#pragma once
// Seconds of a collective by algorithm and level: a line alpha + bytes / rate for rings and trees, of which the
// shorter is taken, as NCCL does.
//
//   const Group tensor = group_of(hardware, {.ranks = 8, .stride = 1});
//   all_reduce(hardware, tensor, bytes)
//
// Plain values, any thread.

#include <cstdint>

#include "weft-plan/scale/hardware.hpp"

namespace weft::scale {

/// Ranks stride apart: 0, stride, 2 stride, ...
struct Placement {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;
};

/// What its collectives go over.
struct Group {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  double rate = 0;          ///< bytes a second that each rank sends and receives
  double ring_latency = 0;  ///< of a whole turn of the ring
  double tree_latency = 0;  ///< up and down
};

Group group_of(const Hardware& hardware, const Placement& placement);

/// @param bytes of the whole vector; nothing for a group of one
double all_reduce(const Hardware& hardware, const Group& group, double bytes);
/// Also of a reduce_scatter, which sends the same the other way.
double all_gather(const Hardware& hardware, const Group& group, double bytes);
/// A message to the rank `stride` further. @param stride at least a node's GPUs: it leaves the node
double message(const Hardware& hardware, std::int64_t stride, double bytes);

}  // namespace weft::scale
