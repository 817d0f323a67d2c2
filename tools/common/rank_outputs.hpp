#pragma once
// Outputs of a program that runs on several ranks: rank 0 writes for all.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/outputs.hpp"
#include "weft/collectives/world.hpp"

namespace weft::tool {

/// Rank 0 opens the files, because their folders need not exist on every node; where it cannot, all ranks refuse together.
/// The others say nothing when a signal ends them. Collective over the ranks of `world`. @param files option and path, as Outputs::open() takes them
/// @throws Error as Outputs::open() does, on every rank
void open_on_rank_0(Outputs& outputs, const World& world,
                    const std::vector<std::pair<std::string, std::optional<std::string>>>& files);

}  // namespace weft::tool
