#include "weft/embedding/placement.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/expect_error.hpp"

namespace weft::embedding {
namespace {

/// Bytes and traffic of each rank, counted row by row.
std::vector<RankLoad> counted(const RowPlacement& placement, const std::vector<Table>& tables,
                              const std::vector<std::vector<std::uint32_t>>& counts, int ranks) {
  std::vector<RankLoad> loads(static_cast<std::size_t>(ranks));
  double all = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (std::int64_t row = 0; row < tables[t].rows; ++row) {
      const auto owner = static_cast<std::size_t>(
          placement.tables[t].owners[static_cast<std::size_t>(row / placement.tables[t].block_rows)]);
      const double traffic = counts[t][static_cast<std::size_t>(row)] * 4.0 * tables[t].columns;
      loads[owner].bytes += 4 * tables[t].columns;
      loads[owner].traffic += traffic;
      all += traffic;
    }
  }
  for (RankLoad& load : loads) load.traffic /= all;
  return loads;
}

TEST(RowPlacement, EvensOutTrafficAndBytesOfRowsThatAreReadUnevenly) {
  const std::vector<Table> tables{{"a", 50000, 16}, {"b", 300, 64}, {"c", 7, 8}, {"d", 9000, 4}};
  std::vector<std::vector<std::uint32_t>> counts;
  for (const Table& table : tables) {
    counts.emplace_back();
    for (std::int64_t row = 0; row < table.rows; ++row)  // Zipf's law
      counts.back().push_back(static_cast<std::uint32_t>(1e6 / std::pow(static_cast<double>(row + 1), 1.05)));
  }
  PlacementOptions options;
  for (const auto& one : counts) options.counts.emplace_back(one);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const RowPlacement placement = plan_placement(tables, ranks, options);
    const std::vector<RankLoad> loads = counted(placement, tables, counts, ranks);
    std::int64_t bytes = 0;
    for (const Table& table : tables) bytes += table.rows * table.columns * 4;
    for (std::size_t r = 0; r < loads.size(); ++r) {
      EXPECT_EQ(loads[r].bytes, placement.ranks[r].bytes);
      EXPECT_NEAR(loads[r].traffic, placement.ranks[r].traffic, 1e-9);
      EXPECT_LE(static_cast<double>(loads[r].bytes), 1.1 * static_cast<double>(bytes) / ranks)
          << "rank " << r << " of " << ranks;
    }
    // The hottest row alone may be more than an even share.
    const double hottest = counts[1][0] * 4.0 * 64;
    double all = 0;
    for (std::size_t t = 0; t < tables.size(); ++t)
      all += std::accumulate(counts[t].begin(), counts[t].end(), 0.0) * 4 * tables[t].columns;
    EXPECT_LE(placement.imbalance(), std::max(1.1, 1.001 * hottest / all * ranks)) << ranks << " ranks";
  }
}

TEST(RowPlacement, KeepsASmallTableWholeUnlessItIsReadTooOften) {
  std::vector<Table> tables{{"large", 1 << 20, 16}};
  for (int i = 0; i < 15; ++i) tables.push_back({text("small", i), 100, 16});
  const RowPlacement placement = plan_placement(tables, 2);
  for (std::size_t t = 1; t < tables.size(); ++t) EXPECT_EQ(placement.tables[t].owners.size(), 1U);
  EXPECT_GE(placement.tables[0].owners.size(), 2U * 32U);
  EXPECT_LE(placement.imbalance(), 1.1);
  const std::string lines = described(placement, tables);
  EXPECT_NE(lines.find("small7: 100 rows of 16, whole on rank"), std::string::npos) << lines;

  const RowPlacement two = plan_placement(std::span(tables).first(2), 2);
  EXPECT_GT(two.tables[1].owners.size(), 1U);  // half of all that is read
  EXPECT_LE(two.imbalance(), 1.1);
}

TEST(RowPlacement, HoldsNoMoreBytesThanARankHasRoomFor) {
  const std::vector<Table> tables{{"a", 1000, 4}, {"b", 1000, 4}};
  std::vector<std::uint32_t> hot(1000, 1000);
  std::vector<std::uint32_t> cold(1000, 1);
  const RowPlacement placement = plan_placement(tables, 2, {.counts = {hot, cold}, .bytes_per_rank = 16400});
  for (const RankLoad& rank : placement.ranks) EXPECT_LE(rank.bytes, 16400);
  test::expect_error(ErrorKind::usage,
                     {"tables of 32000 bytes do not fit into 2 ranks of 15000 bytes",
                      "the largest is a, of 1000 rows", "more ranks"},
                     [&] { (void)plan_placement(tables, 2, {.bytes_per_rank = 15000}); });
}

TEST(RowPlacement, RefusesWhatMakesNoSense) {
  const std::vector<std::uint32_t> counts(5);
  test::expect_error(ErrorKind::usage, {"no embedding table"}, [] { (void)plan_placement({}, 2); });
  test::expect_error(ErrorKind::usage, {"table 0 (a) has 0 rows and 4 columns"}, [] {
    (void)plan_placement(std::vector<Table>{{"a", 0, 4}}, 2);
  });
  test::expect_error(ErrorKind::usage, {"table 0 has no name"}, [] {
    (void)plan_placement(std::vector<Table>{{"", 4, 4}}, 2);
  });
  test::expect_error(ErrorKind::usage, {"two tables are called a"}, [] {
    (void)plan_placement(std::vector<Table>{{"a", 4, 4}, {"a", 5, 4}}, 2);
  });
  test::expect_error(ErrorKind::usage, {"a placement on 0 ranks"}, [] {
    (void)plan_placement(std::vector<Table>{{"a", 4, 4}}, 0);
  });
  test::expect_error(ErrorKind::usage, {"table a has 4 rows, and counts of 5"}, [&] {
    (void)plan_placement(std::vector<Table>{{"a", 4, 4}}, 2, {.counts = {counts}});
  });
  test::expect_error(ErrorKind::usage, {"counts of 2 tables, and there are 1"}, [&] {
    (void)plan_placement(std::vector<Table>{{"a", 4, 4}}, 2, {.counts = {{}, {}}});
  });
}

}  // namespace
}  // namespace weft::embedding
