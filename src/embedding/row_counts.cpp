#include "embedding/row_counts.hpp"

namespace weft::detail {

void RowCounts::add(std::span<const std::int32_t> slots) {
  bool full = false;
  for (const std::int32_t slot : slots) full = ++counts_[static_cast<std::size_t>(slot)] == most || full;
  if (!full) return;
  for (std::uint16_t& count : counts_) count /= 2;
}

RowSet RowCounts::most_read(std::int64_t count, const RowSet& before) const {
  std::vector<std::int64_t> rows_with(std::size_t{most} + 1);  // so many reads
  for (const std::uint16_t one : counts_) ++rows_with[one];
  // All rows with more reads than `bound` fit, and `room` of those that have so many.
  std::size_t bound = most;
  std::int64_t room = count;
  for (; bound > 0 && rows_with[bound] <= room; --bound) room -= rows_with[bound];
  const auto rows = static_cast<std::int64_t>(counts_.size());
  RowSet result(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (of(row) > bound) result.add(row);
  }
  if (bound == 0) return result;
  for (const bool were_there : {true, false}) {
    for (std::int64_t row = 0; row < rows && room > 0; ++row) {
      if (of(row) != bound || before.has(row) != were_there) continue;
      result.add(row);
      --room;
    }
  }
  return result;
}

}  // namespace weft::detail
