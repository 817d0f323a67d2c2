#pragma once
// Optimizer state on the host, in memory or in a file, for devices that have too little memory.
//
// A rank keeps the first piece of every bucket on its device, and the rest (masters, moments and a copy of
// the parameters) in pinned host memory. For the rest, three streams work at the same time (ZeRO-Offload, Ren
// et al. 2021). Gradients are copied to the host in tiles, a host thread updates them, and new parameters are
// copied to the device. Parameters are bitwise the same, whatever is offloaded.
//
// Two things hide the cost. A trainer that gives the learning rate before backward
// (ShardedOptimizer::begin_step) lets the host update each bucket as soon as it is reduced, behind the rest
// of backward. Clipping and loss scaling forbid that, because they need the norm of all gradients first. And
// step() does not wait for the host: the next gather of a unit does.
//
//   zero::ShardedOptimizer adam(params, zero::AdamW{}, {.offload = {.share = 0.8}});
//   adam.begin_step(rate);          // optional
//   ... forward and backward
//   adam.step(compute);
//
// Where host memory is short as well, masters and moments lie in a file (ZeRO-Infinity, Rajbhandari et al.
// 2021):
//
//   {.offload = {.share = 1, .directory = "/mnt/nvme"}}
//
// Each rank has a file of its own. The file has no name, so that nothing stays behind, and its space is
// reserved at the start. One tile is read while the tile before it is updated and the one before that is
// written (io_uring, with O_DIRECT where the filesystem supports it). Host memory then holds four tiles and
// the parameters. A read or write that takes longer than WEFT_TIMEOUT fails. A step takes at least as long as
// the disk needs to read and write all of the file.
//
// With `share = std::nullopt` the share is measured. For three steps all state is off the device, which shows
// how much time there is to hide behind. Then one tile is timed on each path, and the part that should stay
// on the device moves there. In these three steps step() waits for `compute`.
//
// Bytes for each parameter with Adam: 12 for f32, 14 for 16 bits with an f32 master, 12 with a split master.
// The parameter's own bytes (4, 2 and 2 of these) are in host memory even with a file.
//
// Rules that need whole tensors (Muon, LAMB, LARS) have no offloaded state.
//
// WRONG: writing the next step's gradients without gather() or ShardedParams::gradient(). The last step's
// gradients may still be on their way to the host.

#include <cstddef>
#include <optional>
#include <string>

namespace weft::zero {

struct Offload {
  /// Share of this rank's optimizer state that is offloaded, 0 (none) to 1 (all), of every bucket in whole
  /// cache lines. Ranks may differ. nullopt, which all ranks must then give: measured, and the same on all
  /// ranks.
  std::optional<double> share = 0.0;
  /// Bytes of gradients that are copied at a time, rounded to whole cache lines. Two such tiles are pinned.
  std::size_t tile_bytes = std::size_t{4} << 20;
  /// A folder on a local disk for the file; empty: no file. Ranks may differ. Needs WEFT_URING and Linux
  /// 5.11.
  std::string directory{};
  /// Share of the offloaded state that lies in the file, 0 to 1; ignored without a directory.
  double file_share = 1;
};

}  // namespace weft::zero
