#include "embedding/row_counts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "embedding/row_record.hpp"

namespace weft::detail {
namespace {

/// All rows sorted by reads, then by whether they were there, then by number.
std::vector<std::int64_t> twin(const std::vector<int>& counts, std::int64_t count, const RowSet& before) {
  std::vector<std::int64_t> rows(counts.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::stable_sort(rows, [&](std::int64_t a, std::int64_t b) {
    const int reads_a = counts[static_cast<std::size_t>(a)];
    const int reads_b = counts[static_cast<std::size_t>(b)];
    return reads_a != reads_b ? reads_a > reads_b : before.has(a) && !before.has(b);
  });
  std::erase_if(rows, [&](std::int64_t row) { return counts[static_cast<std::size_t>(row)] == 0; });
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(count)));
  std::ranges::sort(rows);
  return rows;
}

std::vector<std::int64_t> rows_of(const RowSet& set, std::int64_t rows) {
  std::vector<std::int64_t> result;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (set.has(row)) result.push_back(row);
  }
  return result;
}

TEST(RowCounts, NameTheRowsThatWereReadMostOften) {
  std::mt19937 random(7);  // NOLINT: the same in each run
  for (int trial = 0; trial < 50; ++trial) {
    const std::int64_t rows = 1 + random() % 200;
    const std::int64_t count = random() % 220;
    RowCounts counts(rows);
    std::vector<int> reads(static_cast<std::size_t>(rows));
    RowSet before(rows);
    for (int batch = 0; batch < 6; ++batch) {
      std::vector<std::int32_t> slots;
      for (std::int32_t slot = 0; slot < rows; ++slot) {
        if (random() % 3 > 0) continue;
        slots.push_back(slot);
        ++reads[static_cast<std::size_t>(slot)];
      }
      counts.add(slots);
      const RowSet most = counts.most_read(count, before);
      ASSERT_EQ(rows_of(most, rows), twin(reads, count, before)) << rows << " rows, " << count << " wanted";
      before = most;
    }
  }
}

TEST(RowCounts, AreHalvedBeforeOneIsFull) {
  RowCounts counts(3);
  const std::vector<std::int32_t> all{0, 1, 2};
  for (int i = 0; i < 10; ++i) counts.add(all);
  for (int i = 10; i < RowCounts::most - 1; ++i) counts.add(std::span(all).first(1));
  EXPECT_EQ(counts.of(0), RowCounts::most - 1);
  EXPECT_EQ(counts.of(2), 10);
  counts.add(std::span(all).first(2));
  EXPECT_EQ(counts.of(0), RowCounts::most / 2);
  EXPECT_EQ(counts.of(1), 5);
  EXPECT_EQ(counts.of(2), 5);
}

TEST(RowRecord, LiesInOneSpanAndTouchesNoOther) {
  for (const RowRecord record :
       {RowRecord{.columns = 1}, RowRecord{.columns = 64, .first = 1}, RowRecord{64, 64, 64, 1},
        RowRecord{1000, 1, 0, 0}, RowRecord{1024, 1, 0, 0}, RowRecord{5000, 5000, 5000, 1}}) {
    EXPECT_EQ(record.span_bytes() % ScratchFile::block, 0U);
    EXPECT_LE(static_cast<std::size_t>(record.per_span()) * record.bytes(), record.span_bytes());
    EXPECT_TRUE(record.per_span() == 1 || record.span_bytes() == ScratchFile::block);
    EXPECT_EQ(record.spans(record.per_span()), 1);
    EXPECT_EQ(record.spans(record.per_span() + 1), 2);
    std::vector<std::byte> memory(record.bytes());
    const RowParts parts = record.parts(memory.data());
    EXPECT_EQ(parts.first == nullptr, record.first == 0);
    EXPECT_EQ(parts.second == nullptr, record.second == 0);
    EXPECT_EQ(parts.last == nullptr, record.last == 0);
    if (record.last == 1) {
      EXPECT_EQ(reinterpret_cast<std::byte*>(parts.last + 1), memory.data() + memory.size());
      EXPECT_EQ(parts.second, parts.first + record.first);
      EXPECT_EQ(parts.first, parts.row + record.columns);
    }
  }
}

}  // namespace
}  // namespace weft::detail
