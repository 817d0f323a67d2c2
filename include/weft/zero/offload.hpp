#pragma once
// How much of an optimizer's state lies on the host, in memory or in a file, where a device has too little.
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
// Where host memory is short, too, masters and moments lie in a file (ZeRO-Infinity, Rajbhandari et al.
// 2021):
//
//   {.offload = {.share = 1, .directory = "/mnt/nvme"}}
//
// Each rank has one of its own, without a name, so that nothing stays behind; its space is reserved at the
// start. A tile of it is read while the one before is updated and the one before that is written (io_uring,
// past the page cache where the filesystem can: O_DIRECT). Host memory then holds four tiles of it, and the
// parameters. What cannot be read or written within WEFT_TIMEOUT is given up. A step takes as long as the
// disk has for reading and writing all of it.
//
// Without a share it is found: three steps have all state off the device and show how long there is to hide
// behind, then a tile is timed on all ways, and what should stay on the device moves there. In these steps
// step() waits for `compute`.
//
// Bytes for a parameter, with Adam: 12 of f32, 14 of 16 bits with an f32 master, 12 with a split one. Of
// these the parameter's own (4, 2 and 2) are in host memory in any case.
//
// WRONG: writing gradients of the next step without gather() or ShardedParams::gradient(): those of the last
// may still be on their way down.

#include <cstddef>
#include <optional>
#include <string>

namespace weft::zero {

struct Offload {
  /// Of this rank's optimizer state, 0 (none) to 1 (all); bucket by bucket, to the next cache line.
  /// None, on all ranks: found, and the same for all. Else ranks may differ.
  std::optional<double> share = 0.0;
  /// Of gradients, at a time; whole cache lines. Two of these are pinned, too.
  std::size_t tile_bytes = std::size_t{4} << 20;
  /// A folder on a local disk, for the file; empty: none. Ranks may differ. Needs WEFT_URING and Linux 5.11.
  std::string directory{};
  /// Of what is offloaded, 0 to 1, that lies in the file where there is one.
  double file_share = 1;
};

}  // namespace weft::zero
