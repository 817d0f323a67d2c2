#pragma once
// Which rank keeps which rows of embedding tables: a plain value, made by a pure function.
//
// A table is cut into blocks of rows, and each block lies on one rank: a small table whole (sharding by table), a large one on all ranks (by
// row). The planner deals blocks out so that ranks hold alike many bytes, and are asked for alike many rows.
//
//   const RowPlacement even = plan_placement(tables, comm.size());
//   const RowPlacement known = plan_placement(tables, comm.size(), {.counts = counted});    // how often each row was read
//   std::cout << described(known, tables);             // a line for each rank
//
// WRONG: counts that each rank took from its own data. Ranks that place tables differently throw Error (mismatch): sum the counts first.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/embedding/table.hpp"

namespace weft::embedding {

/// Where one table lies.
struct TablePlacement {
  std::int64_t block_rows = 1;  ///< a power of two; the last block may be shorter
  std::vector<int> owners;      ///< of each block, in the order of rows

  friend bool operator==(const TablePlacement&, const TablePlacement&) = default;
};

/// What one rank has of it all.
struct RankLoad {
  std::int64_t bytes = 0;  ///< of rows
  double traffic = 0;      ///< bytes of rows that a batch asks of it, as a share of what it asks of all
};

struct RowPlacement {
  std::vector<TablePlacement> tables;
  std::vector<RankLoad> ranks;

  /// The traffic of the most loaded rank over the mean: 1 is even.
  double imbalance() const;
};

struct PlacementOptions {
  /// For each table how often each of its rows was read, in any unit that is the same for all. Empty for a table: each of its rows alike, as often
  /// in total as the mean of the tables that have counts.
  std::vector<std::span<const std::uint32_t>> counts{};
  /// Bytes of rows that a rank may hold. 0: none holds more than an even share and one block.
  std::int64_t bytes_per_rank = 0;
};

/// Blocks by descending traffic, each to the rank that has the least traffic so far of those that have room (longest processing time first:
/// Graham 1969). A block that alone is more than a quarter of a rank's even share of traffic is halved, down to one row.
/// @throws Error (usage) for tables that make no sense, and for more bytes than ranks have room for
RowPlacement plan_placement(std::span<const Table> tables, int ranks, const PlacementOptions& options = {});

/// For people: a line for each table, and one for each rank.
std::string described(const RowPlacement& placement, std::span<const Table> tables);

}  // namespace weft::embedding
