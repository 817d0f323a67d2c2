#pragma once
// All ranks start with one model: its parameters, and its buffers, such as running means.
//
// Data parallel training averages gradients, not parameters. Ranks that start with different values train
// different models from then on, and no later check sees it. Call this once after a model is built, and again
// after a checkpoint is loaded.
//
//   sync_initial_values(comm, model.parameters(), InitialValues::from_rank_0);    // as DDP does
//   sync_initial_values(comm, model.parameters(), InitialValues::compare);        // each rank loads by itself
//
// Collective: every rank gives the same tensors in the same order. Blocks. Values may be in host memory or on
// the communicator's device. ShardedParams does it by itself (ShardedOptions::initial_values).
//
// Price: one pass over the values for their hashes and 8 bytes from every rank; with from_rank_0 a broadcast
// of each tensor instead of the pass.
//
// WRONG: from_rank_0 where only rank 1 has loaded the checkpoint. All ranks then have what rank 0 has.

#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/collectives/communicator.hpp"

namespace weft {

/// What happens to the values that ranks start with.
enum class InitialValues {
  compare,      ///< an Error (mismatch) on every rank names the first tensor in which two ranks differ
  from_rank_0,  ///< every rank gets those of rank 0
};

/// A parameter or a buffer of a model.
struct NamedValues {
  std::string name;
  View values;
};

/// @throws Error (mismatch), on every rank, where ranks give different tensors, and with
/// InitialValues::compare where values differ in any bit
void sync_initial_values(Communicator& comm, const std::vector<NamedValues>& tensors, InitialValues how);

/// From any range of objects with a `name`, a `count` and a pointer `data` to host memory, as
/// ParamLayout::of() takes them.
template <class Range>
requires(!std::is_same_v<Range, std::vector<NamedValues>>) void sync_initial_values(Communicator& comm,
                                                                                    const Range& tensors,
                                                                                    InitialValues how) {
  std::vector<NamedValues> named;
  for (const auto& one : tensors)
    named.push_back({one.name, View(std::span(one.data, static_cast<std::size_t>(one.count)))});
  sync_initial_values(comm, named, how);
}

}  // namespace weft
