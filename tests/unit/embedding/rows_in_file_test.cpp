#include "embedding/rows_in_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <random>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/under_tsan.hpp"
#include "support/uring.hpp"

namespace weft::detail {
namespace {

class RowsInFileOf : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = test::why_no_uring()) GTEST_SKIP() << *why;
  }
  std::unique_ptr<RowsInFile> make(std::int64_t rows, std::int64_t places, const RowRecord& record,
                                   int refresh_every = 2) {
    const embedding::Table table{
        .name = "user",
        .rows = rows,
        .columns = record.columns,
        .file = {.directory = folder_.path(), .rows_in_memory = places, .refresh_every = refresh_every}};
    auto result = std::make_unique<RowsInFile>(table, rows, places, record, 3, Stream::queued());
    result->fill(
        [](std::int64_t slot, std::span<float> row) { std::ranges::fill(row, static_cast<float>(slot)); });
    return result;
  }
  static void wait(RowsInFile& rows) {
    while (!rows.is_read()) rows.rest(std::chrono::microseconds(100));
  }

  test::TemporaryFolder folder_;
};

/// The expected rows and state are kept in memory. Up to three batches have begun at a time; half of them change their rows.
TEST_F(RowsInFileOf, HasInMemoryWhatABatchNeeds) {
  std::mt19937 random(11);  // NOLINT: the same in each run
  struct Case {
    std::int64_t rows, places;
    RowRecord record;
  };
  for (const Case& one : test::few_under_tsan<Case>({{300, 20, {100, 1, 0, 0}},
                                                     {50, 7, {30, 30, 30, 1}},
                                                     {300, 0, {100, 0, 0, 0}},
                                                     {40, 40, {600, 1, 0, 0}},
                                                     {20, 3, {1500, 1, 0, 0}}},
                                                    2)) {
    const auto rows = make(one.rows, one.places, one.record);
    std::vector<std::vector<float>> expected;
    for (std::int64_t slot = 0; slot < one.rows; ++slot) {
      expected.emplace_back(one.record.bytes() / sizeof(float));
      std::fill_n(expected.back().begin(), one.record.columns, static_cast<float>(slot));
    }
    std::deque<std::vector<std::int32_t>> begun;
    const auto begin = [&] {
      std::vector<std::int32_t> slots;
      const auto often = static_cast<std::uint32_t>(std::max<std::int64_t>(1, one.rows / 10));
      for (std::int32_t slot = 0; slot < one.rows; ++slot) {
        if (random() % 100 < (static_cast<std::uint32_t>(slot) < often ? 60U : 4U)) slots.push_back(slot);
      }
      begun.push_back(slots);
      rows->begin(slots);
    };
    const auto expect_row = [&](std::int64_t slot, const RowParts& parts) {
      const std::vector<float>& there = expected[static_cast<std::size_t>(slot)];
      ASSERT_TRUE(std::equal(there.begin(), there.end(), parts.row)) << "row " << slot << " of " << one.rows;
    };
    for (int batch = 0; batch < 150; ++batch) {
      while (begun.empty() || (begun.size() < 3 && random() % 2 == 0)) begin();
      wait(*rows);
      const bool changes = random() % 2 == 0;
      for (const std::int32_t slot : begun.front()) {
        const RowParts parts = rows->parts(slot);
        expect_row(slot, parts);
        if (!changes) continue;
        std::vector<float>& there = expected[static_cast<std::size_t>(slot)];
        for (float& number : there) number = static_cast<float>(random() % 1000);
        std::ranges::copy(there, parts.row);
      }
      rows->end(changes);
      begun.pop_front();
      if (batch % 50 == 49)
        rows->visit(0, one.rows, false,
                    [&](std::int64_t slot, const RowParts& parts) { expect_row(slot, parts); });
      ASSERT_FALSE(HasFatalFailure());
    }
    EXPECT_LE(rows->figures().rows_in_memory, one.places);
    EXPECT_EQ(rows->figures().evictions > 0, one.places > 0 && one.places < one.rows);
  }
}

/// Rows 0 to 4 fill the cache; then 5 to 9 are read, always, and take their places after a refresh. Nothing else moves.
TEST_F(RowsInFileOf, KeepsInTheCacheWhatIsReadMost) {
  const auto rows = make(100, 5, {.columns = 16}, 4);
  const auto read = [&](std::int32_t first, std::int32_t last) {
    std::vector<std::int32_t> slots;
    for (std::int32_t slot = first; slot <= last; ++slot) slots.push_back(slot);
    const embedding::FileFigures before = rows->figures();
    rows->begin(slots);
    wait(*rows);
    rows->end(true);
    return rows->figures().hits - before.hits;
  };
  EXPECT_EQ(read(0, 4), 0);
  EXPECT_EQ(read(0, 4), 5);
  for (int batch = 2; batch < 4; ++batch) EXPECT_EQ(read(5, 9), 0);
  for (int batch = 4; batch < 20; ++batch) (void)read(5, 9);
  EXPECT_EQ(read(5, 9), 5);
  EXPECT_EQ(rows->figures().evictions, 5);
  EXPECT_EQ(rows->figures().rows_in_memory, 5);
  const std::int64_t evictions = rows->figures().evictions;
  for (std::int32_t slot = 10; slot < 90; ++slot) EXPECT_EQ(read(slot, slot), 0);
  EXPECT_EQ(read(5, 9), 5);
  EXPECT_EQ(rows->figures().evictions, evictions);
  EXPECT_EQ(rows->figures().bytes_read, rows->figures().reads * 4096)
      << "a row that leaves the cache costs no read";
}

TEST_F(RowsInFileOf, WritesNothingForRowsThatLeaveTheCacheAsTheyWereRead) {
  const auto rows = make(100, 5, {.columns = 16}, 4);
  for (int batch = 0; batch < 20; ++batch) {
    const std::int32_t first = batch < 2 ? 0 : 5;
    rows->begin({first, first + 1, first + 2, first + 3, first + 4});
    wait(*rows);
    for (std::int32_t slot = first; slot < first + 5; ++slot)
      EXPECT_EQ(rows->row(slot)[15], static_cast<float>(slot));
    rows->end(false);
  }
  EXPECT_EQ(rows->figures().evictions, 5);
  EXPECT_EQ(rows->figures().bytes_written, 0);
  rows->visit(0, 100, false, [](std::int64_t slot, const RowParts& parts) {
    EXPECT_EQ(parts.row[0], static_cast<float>(slot));
  });
}

/// Rows 5 to 9 become those that are read most at the end of batch 5, when batch 6 has begun, which uses what the cache has.
TEST_F(RowsInFileOf, LetsNoRowLeaveTheCacheThatABatchUses) {
  const auto rows = make(100, 5, {.columns = 16}, 4);
  const auto slots = [](std::int32_t first) {
    return std::vector<std::int32_t>{first, first + 1, first + 2, first + 3, first + 4};
  };
  const auto end = [&rows] {
    wait(*rows);
    rows->end(false);
  };
  for (int batch = 1; batch <= 4; ++batch) {
    rows->begin(slots(batch == 1 ? 0 : 5));
    end();
  }
  rows->begin(slots(5));
  rows->begin(slots(0));
  end();
  EXPECT_EQ(rows->figures().evictions, 0);
  wait(*rows);
  for (std::int32_t slot = 0; slot < 5; ++slot) {
    EXPECT_EQ(rows->row(slot)[15], static_cast<float>(slot));
    std::ranges::fill(std::span(rows->row(slot), 16), 1000.0F);
  }
  rows->end(true);
  rows->begin(slots(5));
  end();
  EXPECT_EQ(rows->figures().evictions, 5);
  rows->visit(0, 100, false, [](std::int64_t slot, const RowParts& parts) {
    EXPECT_EQ(parts.row[0], slot < 5 ? 1000.0F : static_cast<float>(slot));
  });
}

/// What is not changed is not written, and a block is read once for all its rows.
TEST_F(RowsInFileOf, ReadsAndWritesNoMoreThanItMust) {
  const auto rows = make(320, 0, {.columns = 64});  // 16 rows in a block
  const std::vector<std::int32_t> slots{0, 1, 15, 16, 200};
  const auto pass = [&](bool changed) {
    const std::int64_t written = rows->figures().bytes_written;
    const std::int64_t read = rows->figures().bytes_read;
    rows->begin(slots);
    wait(*rows);
    rows->end(changed);
    rows->visit(0, 0, false, {});  // all is written
    return std::pair(rows->figures().bytes_read - read, rows->figures().bytes_written - written);
  };
  EXPECT_EQ(pass(false), std::pair(std::int64_t{3 * 4096}, std::int64_t{0}));
  EXPECT_EQ(pass(true), std::pair(std::int64_t{3 * 4096}, std::int64_t{3 * 4096}));
  rows->begin(slots);
  rows->begin(slots);
  rows->begin({1, 300});
  EXPECT_EQ(rows->figures().reads, 3 + 3 + 3 + 0 + 1);
  for (int batch = 0; batch < 3; ++batch) {
    wait(*rows);
    rows->needed();
    rows->end(false);
  }
  EXPECT_EQ(rows->figures().reads_hidden, 3 + 1);
}

/// The descriptor of the only file without a name in the folder.
int descriptor_in(const std::string& folder) {
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(one.path(), error).string();
    if (!error && target.starts_with(folder + "/")) return std::stoi(one.path().filename().string());
  }
  return -1;
}

TEST_F(RowsInFileOf, SaysThatTheFileWasShortened) {
  const auto rows = make(320, 0, {.columns = 64});
  const int file = descriptor_in(folder_.path());
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  rows->begin({0, 200});
  test::expect_error(ErrorKind::system,
                     {"the file of table user: cannot read 4096 bytes at 49152 of " + folder_.path(),
                      "the file ends there", "rank 3", "parameters that were saved"},
                     [&] { wait(*rows); });
}

TEST_F(RowsInFileOf, SaysThatTheDiskTakesNothing) {
  const auto rows = make(320, 0, {.columns = 64});
  rows->begin({0});
  wait(*rows);
  const int full = open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_GE(dup2(full, descriptor_in(folder_.path())), 0);
  close(full);
  rows->end(true);
  test::expect_error(
      ErrorKind::system,
      {"the file of table user: cannot write 4096 bytes at 0 of", "No space left on device", "rank 3"},
      [&] { rows->visit(0, 1, false, [](std::int64_t, const RowParts&) {}); });
}

}  // namespace
}  // namespace weft::detail
