#include "embedding/wanted_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

using embedding::Bags;
using embedding::Table;
using embedding::TablePlacement;

TEST(WantedRows, AreEachRowOnceByItsOwner) {
  std::mt19937 random(11);  // NOLINT: the same in each run
  DigitSort sort;
  WantedRows wanted;  // memory of earlier trials must not show
  for (int trial = 0; trial < 500; ++trial) {
    const int ranks = 1 + static_cast<int>(random() % 5);
    const Table table{"t", 1 + static_cast<std::int64_t>(random() % 5000), 4};
    TablePlacement placement{std::int64_t{1} << random() % 12, {}};
    for (std::int64_t at = 0; at < table.rows; at += placement.block_rows)
      placement.owners.push_back(static_cast<int>(random() % static_cast<unsigned>(ranks)));
    const RowPlaces places(table, placement, ranks);
    std::vector<std::int64_t> indices;
    std::vector<std::int64_t> offsets{0};
    for (auto sample = random() % 40; sample > 0; --sample) {
      for (auto i = random() % 6; i > 0; --i)
        indices.push_back(static_cast<std::int64_t>(random()) %
                          std::max<std::int64_t>(1, table.rows / (random() % 2 == 0 ? 1 : 50)));
      offsets.push_back(static_cast<std::int64_t>(indices.size()));
    }
    want_rows(table, {indices, offsets}, places, ranks, sort, wanted);

    // Each index finds its own row's slot, and each row is there once.
    std::map<std::int32_t, std::multiset<std::int32_t>> uses;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto [owner, slot] = places.of(indices[i]);
      const std::int32_t place = wanted.places[i];
      ASSERT_EQ(wanted.slots[static_cast<std::size_t>(place)], slot);
      ASSERT_GE(place, wanted.first_of_owner[static_cast<std::size_t>(owner)]);
      ASSERT_LT(place, wanted.first_of_owner[static_cast<std::size_t>(owner) + 1]);
      const auto sample =
          std::ranges::upper_bound(offsets, static_cast<std::int64_t>(i)) - offsets.begin() - 1;
      uses[place].insert(static_cast<std::int32_t>(sample));
    }
    ASSERT_EQ(wanted.slots.size(), std::set<std::int64_t>(indices.begin(), indices.end()).size());
    ASSERT_EQ(wanted.first_use.size(), wanted.slots.size() + 1);
    for (const auto& [place, samples] : uses) {
      const auto begin = wanted.uses.begin() + wanted.first_use[static_cast<std::size_t>(place)];
      const auto end = wanted.uses.begin() + wanted.first_use[static_cast<std::size_t>(place) + 1];
      ASSERT_TRUE(std::is_sorted(begin, end));
      ASSERT_EQ(std::vector<std::int32_t>(begin, end),
                std::vector<std::int32_t>(samples.begin(), samples.end()));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const auto slots = wanted.of_owner(rank);
      ASSERT_TRUE(std::is_sorted(slots.begin(), slots.end()));
    }
  }
}

TEST(WantedRows, BlocksOfARankCoverItsRows) {
  const Table table{"t", 1000, 4};
  const TablePlacement placement{64, {0, 0, 1, 2, 2, 2, 0, 1, 1, 1, 2, 0, 0, 1, 2, 0}};
  const RowPlaces places(table, placement, 3);
  std::vector<int> seen(1000);
  for (int rank = 0; rank < 3; ++rank) {
    std::int64_t rows = 0;
    for (const RowPlaces::Block& block : places.blocks_of(rank)) {
      for (std::int64_t i = 0; i < block.count; ++i) {
        ++seen[static_cast<std::size_t>(block.first + i)];
        EXPECT_EQ(places.of(block.first + i).owner, rank);
        EXPECT_EQ(places.of(block.first + i).slot, block.slot + i);
      }
      rows += block.count;
    }
    EXPECT_EQ(rows, places.rows_of(rank));
  }
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
}

TEST(WantedRows, RefuseWhatIsNotThereByTableSampleAndRow) {
  const Table table{"country", 10, 4};
  const RowPlaces places(table, {16, {0}}, 1);
  DigitSort sort;
  WantedRows wanted;
  const auto refused = [&](std::vector<std::int64_t> indices, std::vector<std::int64_t> offsets,
                           std::initializer_list<std::string> words) {
    test::expect_error(ErrorKind::usage, words, [&] {
      want_rows(table, {indices, offsets}, places, 1, sort, wanted);
    });
  };
  refused({1, 2, 10}, {0, 1, 1, 3}, {"table country has 10 rows, and sample 2 reads row 10"});
  refused({-1}, {0, 1}, {"sample 0 reads row -1"});
  refused({1, 2}, {0, 1}, {"offsets end with 1, and there are 2 indices"});
  refused({1, 2}, {1, 2}, {"offsets begin with 1"});
  refused({1, 2}, {0, 3, 2}, {"sample 1 has indices from 3 to 2"});
  refused({1, 2}, {}, {"bags without offsets"});
}

}  // namespace
}  // namespace weft::detail
