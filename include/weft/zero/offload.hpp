#pragma once
// How much of an optimizer's state lies in host memory, where a device has too little of it.
//
// Of every bucket a rank keeps the first piece on its device, and the rest (masters, moments, and a copy of
// the parameters) in pinned host memory. Gradients of that rest come down in tiles, a thread of the host
// updates them, and new parameters go up: three streams that work at the same time (ZeRO-Offload, Ren et al.
// 2021). The bits are those without, whatever is offloaded.
//
// What it costs hides in two places. A trainer that says the rate before backward
// (ShardedOptimizer::begin_step) has buckets updated on the host as they land, behind the rest of backward;
// clipping and loss scaling forbid that, for the norm of all gradients comes first. And step() does not wait
// for the host: the next gather of the group does.
//
//   zero::ShardedOptimizer adam(params, zero::AdamW{}, {.offload = {.share = 0.8}});
//   adam.begin_step(rate);          // optional
//   ... forward and backward
//   adam.step(compute);
//
// Without a share it is found: three steps have all state on the host and show how long there is to hide
// behind, then a tile is timed on all four ways, and what should stay on the device moves there. In these
// steps step() waits for `compute`.
//
// Host bytes for a parameter, with Adam: 12 of f32, 14 of 16 bits with an f32 master, 12 with a split one.
//
// WRONG: writing gradients of the next step without gather() or ShardedParams::gradient(): those of the last
// may still be on their way down.

#include <cstddef>
#include <optional>

namespace weft::zero {

struct Offload {
  /// Of this rank's optimizer state, 0 (none) to 1 (all); bucket by bucket, to the next cache line.
  /// None, on all ranks: found, and the same for all. Else ranks may differ.
  std::optional<double> share = 0.0;
  /// Of gradients, at a time; whole cache lines. Two of these are pinned, too.
  std::size_t tile_bytes = std::size_t{4} << 20;
};

}  // namespace weft::zero
