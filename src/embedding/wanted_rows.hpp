#pragma once
// What a rank's bags read of one table: each row once, by the rank that keeps it, and who uses it.

#include <cstdint>
#include <span>
#include <vector>

#include "weft/embedding/placement.hpp"
#include "weft/embedding/table.hpp"

namespace weft::detail {

/// Where the rows of a table are: a *slot* is the number of a row among those of the table on its owner.
class RowPlaces {
 public:
  RowPlaces(const embedding::Table& table, const embedding::TablePlacement& placement, int ranks);

  struct Place {
    int owner;
    std::int32_t slot;
  };
  Place of(std::int64_t row) const {
    const auto block = static_cast<std::size_t>(row >> shift_);
    return {owners_[block], static_cast<std::int32_t>(bases_[block] + (row & mask_))};
  }
  std::int64_t rows_of(int rank) const { return rows_of_[static_cast<std::size_t>(rank)]; }

  struct Block {
    std::int64_t first, count, slot;
  };
  /// Those of a rank, in the order of rows.
  std::vector<Block> blocks_of(int rank) const;

 private:
  int shift_;
  std::int64_t mask_;
  std::int64_t rows_;
  std::vector<int> owners_;
  std::vector<std::int64_t> bases_{};    ///< the first slot of each block
  std::vector<std::int64_t> rows_of_{};  ///< of each rank
};

/// Numbers in ascending order; equal ones keep their order. Sorted by digits of 11 bits: a pass over all for each digit.
class DigitSort {
 public:
  struct Item {
    std::uint64_t key;
    std::int32_t value;
  };
  /// To fill. @param most no key is larger
  std::vector<Item>& items() { return items_; }
  void sort(std::uint64_t most);

 private:
  std::vector<Item> items_{};
  std::vector<Item> other_{};
  std::vector<std::uint32_t> counts_{};
};

/// Memory is kept for the next batch.
struct WantedRows {
  std::vector<std::int32_t> slots{};           ///< by owner, then ascending
  std::vector<std::int32_t> first_of_owner{};  ///< ranks + 1, into `slots`
  std::vector<std::int32_t> places{};          ///< of each index of the bags: its row's among `slots`
  std::vector<std::int32_t> first_use{};       ///< slots + 1, into `uses`
  std::vector<std::int32_t>
      uses{};  ///< samples that use each slot, ascending; one comes as often as it names the row

  std::span<const std::int32_t> of_owner(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return std::span(slots).subspan(static_cast<std::size_t>(first_of_owner[r]),
                                    static_cast<std::size_t>(first_of_owner[r + 1] - first_of_owner[r]));
  }
};

/// @throws Error (usage) for offsets that make no sense, or a row that is not there
void want_rows(const embedding::Table& table, const embedding::Bags& bags, const RowPlaces& places, int ranks,
               DigitSort& sort, WantedRows& wanted);

}  // namespace weft::detail
