#pragma once
// Hybrid sharding's hook: ranks of a shard group reduce among themselves, and then each part is averaged with
// those of the same part in the other groups, which takes a part's bytes between groups and not a bucket's.

#include <memory>

#include "weft/gradient/comm_hook.hpp"

namespace weft::detail {

/// @param inner within a group; null: all_reduce_hook()
/// @param replicas the ranks of all groups that keep the same part
std::shared_ptr<CommHook> replicas_hook(std::shared_ptr<CommHook> inner, Communicator replicas);

}  // namespace weft::detail
