#pragma once
// Files of a program that runs on several ranks: rank 0 reads and writes them for all, because their folders need not exist on every node.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/outputs.hpp"
#include "weft/collectives/world.hpp"

namespace weft::tool {

/// Rank 0 calls `body`. If that throws, all ranks fail together, and rank 0 says why. Collective over the ranks of `world`.
/// @throws Error as `body` does, on every rank
void on_rank_0(const World& world, const std::function<void()>& body);

/// Rank 0 opens the files; the others say nothing when a signal ends them. Collective, as on_rank_0(). @param files option and path, as
/// Outputs::open() takes them
void open_on_rank_0(Outputs& outputs, const World& world,
                    const std::vector<std::pair<std::string, std::optional<std::string>>>& files);

}  // namespace weft::tool
