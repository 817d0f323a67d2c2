#include "weft/embedding/sharded_tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>

#include "embedding_twin.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/under_tsan.hpp"
#include "support/uring.hpp"

namespace weft::embedding {
namespace {

using test::EmbeddingTwin;
using test::OwnedBags;

const std::vector<Table> tables{{"user", 700, 16}, {"word", 90, 7, Pooling::mean}, {"country", 3, 40}};

/// The same in files. "word" stays in memory where `all` is false.
std::vector<Table> in_files(const RowFile& file, bool all = true) {
  std::vector<Table> result = tables;
  for (Table& table : result) {
    if (!all && table.name == "word") continue;
    table.file = file;
    table.file.rows_in_memory = file.rows_in_memory * table.rows / tables[0].rows;
  }
  return result;
}

/// A training of ShardedTables on ranks that are threads.
struct Training {
  std::vector<std::int64_t> samples;  ///< of each rank
  Rule rule = RowAdaGrad{.learning_rate = 0.1};
  int first_step = 0;
  int steps = 12;
  bool ahead = false;  ///< each batch is requested before the step of the one before it
  bool queued = false;
  double scale = 1;
  std::optional<RowPlacement> placement{};
  std::function<void(ShardedTables&)> at_start{}, at_end{};
  std::function<void(const std::vector<MetricFamily>&)> metered{};
  std::vector<Table> stored = tables;  ///< the same tables, in memory or in files
  int looks = 0;  ///< of each batch without a step, before the one that is followed by a step

  int ranks() const { return static_cast<int>(samples.size()); }
  std::int64_t all() const { return std::accumulate(samples.begin(), samples.end(), std::int64_t{0}); }
  std::vector<OwnedBags> batch(int step) const {
    return test::drawn_batch(tables, all(), static_cast<std::uint64_t>(step) + 100);
  }

  /// @returns the rows of each table after the last step
  std::vector<std::vector<float>> run() const;
  std::vector<std::vector<float>> twin() const {
    EmbeddingTwin one(tables, rule);
    for (int step = 0; step < first_step + steps; ++step) one.train(batch(step), static_cast<float>(scale));
    return one.rows;
  }
};

std::vector<std::vector<float>> Training::run() const {
  std::vector<std::vector<float>> result;
  run_as_threads(ranks(), [&](Communicator comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    const std::int64_t first =
        std::accumulate(samples.begin(), samples.begin() + comm.rank(), std::int64_t{0});
    TablesOptions options{.rule = rule, .placement = placement};
    options.initial = [](int table, std::int64_t row, std::span<float> values) {
      for (std::size_t c = 0; c < values.size(); ++c)
        values[c] = test::initial_value(table, row, static_cast<int>(c));
    };
    if (queued) options.wire = Stream::queued();
    ShardedTables sharded(comm, stored, options);
    if (at_start) at_start(sharded);
    Stream compute;
    std::vector<Buffer> pooled;
    std::vector<View> out;
    for (const Table& table : tables) {
      pooled.push_back(Buffer::on_host(DataType::f32, samples[rank] * table.columns));
      out.push_back(pooled.back().view());
    }
    const auto request = [&](int step) {
      std::vector<OwnedBags> mine;
      std::vector<Bags> bags;
      for (const OwnedBags& one : batch(step)) mine.push_back(one.part(first, samples[rank]));
      for (const OwnedBags& one : mine) bags.push_back(one.view());
      sharded.request(bags);
    };
    if (ahead) request(first_step);
    for (int step = first_step; step < first_step + steps; ++step) {
      for (int look = 0; look < looks && !ahead; ++look) {
        request(step + look);
        sharded.look_up(out, compute);
        compute.synchronize();
      }
      if (!ahead) request(step);
      sharded.look_up(out, compute);
      if (ahead && step + 1 < first_step + steps) request(step + 1);
      compute.synchronize();
      std::vector<ConstView> gradients;
      for (std::size_t t = 0; t < tables.size(); ++t) {
        const auto values = pooled[t].as<float>();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto columns = static_cast<std::size_t>(tables[t].columns);
          values[i] -= test::target(static_cast<int>(t), first + static_cast<std::int64_t>(i / columns),
                                    static_cast<int>(i % columns));
        }
        gradients.emplace_back(pooled[t].view());
      }
      sharded.step(gradients, compute, std::nullopt, scale);
    }
    if (at_end) at_end(sharded);
    if (metered) metered(comm.meter().read());
    std::vector<std::vector<float>> rows(tables.size());
    for (std::size_t t = 0; t < tables.size(); ++t) {
      for (std::int64_t row = 0; row < tables[t].rows; ++row) {
        const std::vector<float> one = sharded.row(static_cast<int>(t), row);
        rows[t].insert(rows[t].end(), one.begin(), one.end());
      }
    }
    if (comm.rank() == 0) result = rows;
  });
  return result;
}

void expect_twin(const Training& training, const char* what) {
  const auto rows = training.run();
  const auto twin = training.twin();
  ASSERT_EQ(rows.size(), twin.size());
  for (std::size_t t = 0; t < rows.size(); ++t) {
    ASSERT_EQ(rows[t].size(), twin[t].size());
    for (std::size_t i = 0; i < rows[t].size(); ++i) {
      ASSERT_EQ(rows[t][i], twin[t][i])
          << what << ", " << training.ranks() << " ranks, table " << tables[t].name << ", row "
          << i / static_cast<std::size_t>(tables[t].columns);
    }
  }
}

const std::vector<Rule> rules{RowSgd{0.1}, RowAdaGrad{0.1}, LazyAdamW{.learning_rate = 0.01},
                              LazyAdamW{.learning_rate = 0.01, .exact = false}};

TEST(ShardedTables, TrainAsOneProcessDoesForAnyNumberOfRanksAndAnyCutOfTheBatch) {
  const std::vector<std::vector<std::int64_t>> cuts{
      {37}, {16, 16}, {18, 19}, {32, 5}, {1, 36}, {0, 37}, {12, 12, 13}, {8, 8, 8, 8}, {10, 0, 20, 7}};
  for (const Rule& rule : rules) {
    for (const auto& samples : cuts) expect_twin({.samples = samples, .rule = rule}, "plan");
  }
}

TEST(ShardedTables, TrainAlikeWhicheverRankHasWhichRows) {
  std::mt19937 random(5);  // NOLINT: the same in each run
  for (int trial = 0; trial < 12; ++trial) {
    const int ranks = 2 + trial % 3;
    RowPlacement placement;
    for (const Table& table : tables) {
      TablePlacement one{std::int64_t{1} << random() % 8, {}};
      for (std::int64_t at = 0; at < table.rows; at += one.block_rows)
        one.owners.push_back(static_cast<int>(random() % static_cast<unsigned>(ranks)));
      placement.tables.push_back(one);
    }
    std::vector<std::int64_t> samples;
    for (int rank = 0; rank < ranks; ++rank) samples.push_back(static_cast<std::int64_t>(random() % 20));
    expect_twin({.samples = samples,
                 .rule = rules[static_cast<std::size_t>(trial) % rules.size()],
                 .steps = 6,
                 .placement = placement},
                "drawn");
  }
}

TEST(ShardedTables, TrainAlikeWithRequestsAheadAndAWireOfItsOwn) {
  for (const bool ahead : {false, true}) {
    for (const bool queued : {false, true})
      expect_twin({.samples = {14, 9, 14}, .ahead = ahead, .queued = queued, .scale = 1.0 / 3},
                  ahead ? "ahead" : "at once");
  }
}

/// Calls visit(at, memory) for a range of a tensor, in blocks of 250 elements, which end within rows.
template <class Visit>
void each_block(std::int64_t first, std::int64_t count, DataType dtype, std::vector<std::byte>& tensor,
                const Visit& visit) {
  for (std::int64_t at = 0; at < count; at += 250)
    visit(at, View(tensor.data() + static_cast<std::size_t>(first + at) * size_of(dtype),
                   std::min<std::int64_t>(250, count - at), dtype));
}

void expect_to_go_on(const std::vector<Table>& from, const std::vector<Table>& to) {
  for (const Rule& rule : rules) {
    // What a checkpoint holds: tensors, whole.
    std::map<std::string, std::vector<std::byte>> tensors;
    checkpoint::Values values;
    std::mutex mutex;
    Training before{.samples = {8, 8, 21}, .rule = rule, .steps = 5};
    before.stored = from;
    before.at_end = [&](ShardedTables& sharded) {
      const checkpoint::State state = sharded.state();
      const std::lock_guard lock(mutex);
      values = state.values;
      for (const checkpoint::Piece& piece : state.pieces) {
        std::int64_t elements = 1;
        for (const std::int64_t dimension : piece.shape) elements *= dimension;
        auto& tensor = tensors[piece.tensor];
        tensor.resize(static_cast<std::size_t>(elements) * size_of(piece.dtype()));
        each_block(piece.first, piece.count(), piece.dtype(), tensor, [&](std::int64_t at, View there) {
          if (const auto* const computed = std::get_if<checkpoint::Computed>(&piece.values))
            return computed->fill(at, there);
          const ConstView view = std::get<ConstView>(piece.values).slice(at, there.count());
          std::copy_n(view.bytes(), view.size_bytes(), there.bytes());
        });
      }
    };
    (void)before.run();
    Training after{.samples = {20, 17}, .rule = rule, .first_step = 5, .steps = 4};
    after.stored = to;
    after.at_start = [&](ShardedTables& sharded) {
      sharded.load_state(values, [&](std::span<const checkpoint::Wanted> wanted) {
        for (const checkpoint::Wanted& one : wanted) {
          each_block(one.first, one.count(), one.dtype(), tensors.at(one.tensor),
                     [&](std::int64_t at, View there) {
                       if (const auto* const taken = std::get_if<checkpoint::Taken>(&one.values))
                         return taken->take(at, there);
                       const View view = std::get<View>(one.values).slice(at, there.count());
                       std::copy_n(there.bytes(), there.size_bytes(), view.bytes());
                     });
        }
      });
      EXPECT_EQ(sharded.steps(), 5);
    };
    expect_twin(after, "resumed");
  }
}

TEST(ShardedTables, GoOnFromACheckpointOnOtherRanks) {
  expect_to_go_on(tables, tables);
}

TEST(ShardedTables, SendWhatTheBatchNeedsAndNoMore) {
  Training training{.samples = {16, 16}, .steps = 4};
  std::mutex mutex;
  std::vector<TablesTraffic> traffic;
  std::int64_t needed = 0;
  // Each row once: a slot, the row and its gradient.
  training.at_end = [&](ShardedTables& sharded) {
    const std::lock_guard lock(mutex);
    traffic.push_back(sharded.traffic());
  };
  (void)training.run();
  const RowPlacement placement = plan_placement(tables, 2);
  std::int64_t asked = 0;
  std::int64_t indices = 0;
  for (int step = 0; step < training.steps; ++step) {
    const auto batch = training.batch(step);
    for (int rank = 0; rank < 2; ++rank) {
      for (std::size_t t = 0; t < tables.size(); ++t) {
        const OwnedBags mine = batch[t].part(rank * 16, 16);
        std::set<std::int64_t> rows;
        for (const std::int64_t row : mine.indices) {
          if (placement.tables[t].owners[static_cast<std::size_t>(row / placement.tables[t].block_rows)] !=
              rank)
            rows.insert(row);
        }
        asked += static_cast<std::int64_t>(rows.size());
        indices += static_cast<std::int64_t>(mine.indices.size());
        needed += static_cast<std::int64_t>(rows.size()) * (4 + 2 * 4 * tables[t].columns);
      }
    }
  }
  const std::int64_t counts = 2 * training.steps * (static_cast<std::int64_t>(tables.size()) + 1) * 8;
  EXPECT_EQ(traffic[0].bytes_sent + traffic[1].bytes_sent, needed + counts);
  EXPECT_EQ(traffic[0].rows_asked + traffic[1].rows_asked, asked);
  EXPECT_EQ(traffic[0].indices + traffic[1].indices, indices);
}

TEST(ShardedTables, AreReadWithoutAStep) {
  run_as_threads(2, [](Communicator comm) {
    ShardedTables sharded(comm, {{"t", 10, 4}});
    const std::vector<std::int64_t> indices{comm.rank(), 9};
    const std::vector<std::int64_t> offsets{0, 1, 2};
    const Bags bags{indices, offsets};
    std::vector<float> out(8);
    const View view{std::span(out)};
    Stream compute;
    for (int i = 0; i < 3; ++i) {
      sharded.look_up(std::span(&bags, 1), std::span(&view, 1), compute);
      compute.synchronize();
      const std::vector<float> row_of_0 = sharded.row(0, 0);
      const std::vector<float> row_of_1 = sharded.row(0, 1);
      const std::vector<float>& mine = comm.rank() == 0 ? row_of_0 : row_of_1;
      EXPECT_EQ(std::vector<float>(out.begin(), out.begin() + 4), mine);
    }
  });
}

/// Tables in files; skipped where there is no io_uring.
class TablesInFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = test::why_no_uring()) GTEST_SKIP() << *why;
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "something stayed behind";
  }
  /// @param rows in memory, of those of the first table
  RowFile file(std::int64_t rows, int refresh_every = 3) const {
    return {.directory = folder_.path(), .rows_in_memory = rows, .refresh_every = refresh_every};
  }

  test::TemporaryFolder folder_;
};

TEST_F(TablesInFiles, TrainAsOneProcessDoes) {
  bool ahead = false;  // in turn: each with each number of rows
  for (const Rule& rule : test::few_under_tsan<Rule>({rules[2], rules[0], rules[1], rules[3]}, 1)) {
    for (const auto& samples :
         test::few_under_tsan<std::vector<std::int64_t>>({{18, 19}, {8, 8, 8, 8}, {37}, {0, 37}}, 2)) {
      for (const std::int64_t rows : {0, 100, 700}) {
        ahead = !ahead;
        expect_twin(
            {.samples = samples, .rule = rule, .ahead = ahead, .stored = in_files(file(rows), rows > 0)},
            "in files");
      }
    }
  }
}

TEST_F(TablesInFiles, TrainForLongWhicheverRankHasWhichRows) {
  const int steps = test::few_under_tsan<int>({60, 200}, 1).back();
  for (const std::vector<std::int64_t>& samples :
       std::vector<std::vector<std::int64_t>>{{12}, {6, 6}, {3, 3, 3, 3}}) {
    const int ranks = static_cast<int>(samples.size());
    RowPlacement whole;  // each table on one rank
    RowPlacement cut;    // rows in turn
    for (std::size_t t = 0; t < tables.size(); ++t) {
      whole.tables.push_back({1024, {static_cast<int>(t) % ranks}});
      TablePlacement one{1, {}};
      for (std::int64_t row = 0; row < tables[t].rows; ++row)
        one.owners.push_back(static_cast<int>(row) % ranks);
      cut.tables.push_back(one);
    }
    for (const RowPlacement& placement : {whole, cut})
      expect_twin({.samples = samples,
                   .rule = rules[2],
                   .steps = steps,
                   .ahead = ranks != 2,
                   .placement = placement,
                   .stored = in_files(file(70, 8))},
                  "for long");
  }
}

TEST_F(TablesInFiles, AreReadWithoutAStepAndWithAWireOfItsOwn) {
  for (const bool queued : {false, true})
    expect_twin(
        {.samples = {14, 9}, .rule = rules[2], .queued = queued, .stored = in_files(file(60)), .looks = 2},
        "looked up more often");
}

TEST_F(TablesInFiles, GoOnFromACheckpointOfEither) {
  expect_to_go_on(in_files(file(50)), tables);
  expect_to_go_on(tables, in_files(file(50)));
  expect_to_go_on(in_files(file(0)), in_files(file(700)));
}

TEST_F(TablesInFiles, SayWhatTheyReadAndWrote) {
  Training training{.samples = {20}, .steps = 40, .ahead = true, .stored = in_files(file(700))};
  FileFigures all;
  training.at_end = [&](ShardedTables& sharded) {
    (void)sharded.row(0, 0);  // all is over
    all = sharded.file_figures();
  };
  training.metered = [&](const std::vector<MetricFamily>& families) {
    const auto value_of = [&](std::string_view name) {
      return std::ranges::find(families, name, &MetricFamily::name)->samples.front().value;
    };
    EXPECT_EQ(value_of("weft_table_hits_total"), static_cast<double>(all.hits));
    EXPECT_EQ(value_of("weft_table_misses_total"), static_cast<double>(all.misses));
    EXPECT_EQ(value_of("weft_table_read_bytes_total"), static_cast<double>(all.bytes_read));
    EXPECT_LE(value_of("weft_table_written_bytes_total"), static_cast<double>(all.bytes_written));
    EXPECT_NEAR(value_of("weft_table_stall_seconds_total"), all.stall_seconds, 1e-6);
  };
  (void)training.run();
  std::set<std::pair<std::size_t, std::int64_t>> seen;
  std::int64_t reads = 0;
  std::int64_t late =
      0;  // a row that the batch before read first was asked for again before it came to the cache
  std::set<std::pair<std::size_t, std::int64_t>> fresh;
  for (int step = 0; step < training.steps; ++step) {
    std::set<std::pair<std::size_t, std::int64_t>> rows;
    const auto batch = training.batch(step);
    for (std::size_t t = 0; t < tables.size(); ++t) {
      for (const std::int64_t row : batch[t].indices) rows.emplace(t, row);
    }
    std::set<std::pair<std::size_t, std::int64_t>> fresh_now;
    for (const auto& row : rows) {
      if (fresh.contains(row)) ++late;
      if (seen.insert(row).second) fresh_now.insert(row);
    }
    fresh = fresh_now;
    reads += static_cast<std::int64_t>(rows.size());
  }
  EXPECT_EQ(all.hits + all.misses, reads);
  EXPECT_EQ(all.misses, static_cast<std::int64_t>(seen.size()) + late);  // a cache of all rows
  EXPECT_EQ(all.rows_in_memory, static_cast<std::int64_t>(seen.size()));
  EXPECT_EQ(all.evictions, 0);
  EXPECT_LE(all.reads, all.misses);
  EXPECT_LE(all.reads_hidden, all.reads);
  EXPECT_GT(all.file_bytes, 0);
}

TEST_F(TablesInFiles, AreBoundedInMemory) {
  for (const std::int64_t rows : {0, 70}) {
    Training training{.samples = {10, 10}, .steps = 40, .ahead = true, .stored = in_files(file(rows))};
    std::mutex mutex;
    FileFigures all;
    training.at_end = [&](ShardedTables& sharded) {
      (void)sharded.row(0, 0);  // all is over
      const std::lock_guard lock(mutex);
      const FileFigures one = sharded.file_figures();
      all.rows_in_memory += one.rows_in_memory;
      all.hits += one.hits;
      all.evictions += one.evictions;
    };
    (void)training.run();
    EXPECT_LE(all.rows_in_memory,
              rows + rows * 93 / 700 + 4);  // a share of each table, rounded up on each rank
    EXPECT_EQ(all.hits > 0, rows > 0);
    EXPECT_EQ(all.evictions > 0, rows > 0);
  }
}

}  // namespace
}  // namespace weft::embedding
