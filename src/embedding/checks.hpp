#pragma once
// What of tables, rules and placements makes no sense is refused before anybody waits.

#include <span>

#include "weft/embedding/placement.hpp"
#include "weft/embedding/table.hpp"

namespace weft::detail {

/// @throws Error (usage), here and below
void check(std::span<const embedding::Table> tables);
void check(const embedding::Rule& rule);
/// Fits the tables, and names no other ranks.
void check(const embedding::RowPlacement& placement, std::span<const embedding::Table> tables, int ranks);

}  // namespace weft::detail
