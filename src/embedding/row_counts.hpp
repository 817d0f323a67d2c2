#pragma once
// How often each row was read, and which rows were read most often: those that a cache should hold.
//
// Two bytes a row. Before a count would pass its bound all counts are halved, so that what was read long ago weighs less.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace weft::detail {

/// A set of rows: a bit each.
class RowSet {
 public:
  RowSet() = default;
  explicit RowSet(std::int64_t rows) : words_(static_cast<std::size_t>((rows + 63) / 64)) {}

  bool has(std::int64_t row) const {
    const auto r = static_cast<std::uint64_t>(row);
    return (words_[r / 64] >> (r % 64) & 1U) != 0;
  }
  void add(std::int64_t row) {
    const auto r = static_cast<std::uint64_t>(row);
    words_[r / 64] |= std::uint64_t{1} << (r % 64);
  }

 private:
  std::vector<std::uint64_t> words_{};
};

class RowCounts {
 public:
  static constexpr std::uint16_t most = std::numeric_limits<std::uint16_t>::max();

  explicit RowCounts(std::int64_t rows) : counts_(static_cast<std::size_t>(rows)) {}

  /// A batch reads these rows, each once.
  void add(std::span<const std::int32_t> slots);
  /// The `count` rows that were read most often, without those that were never read. Of rows that were read alike often those come first that
  /// `before` has, so that nothing moves without a reason, then those of the lowest numbers.
  RowSet most_read(std::int64_t count, const RowSet& before) const;

  std::uint16_t of(std::int64_t slot) const { return counts_[static_cast<std::size_t>(slot)]; }

 private:
  std::vector<std::uint16_t> counts_;
};

}  // namespace weft::detail
