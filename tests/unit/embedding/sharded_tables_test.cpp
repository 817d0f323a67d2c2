#include "weft/embedding/sharded_tables.hpp"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>

#include "embedding_twin.hpp"
#include "support/expect_error.hpp"

namespace weft::embedding {
namespace {

using test::EmbeddingTwin;
using test::OwnedBags;

const std::vector<Table> tables{{"user", 700, 16}, {"word", 90, 7, Pooling::mean}, {"country", 3, 40}};

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
    ShardedTables sharded(comm, tables, options);
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

TEST(ShardedTables, GoOnFromACheckpointOnOtherRanks) {
  for (const Rule& rule : rules) {
    // What a checkpoint holds: tensors, whole.
    std::map<std::string, std::vector<std::byte>> tensors;
    checkpoint::Values values;
    std::mutex mutex;
    Training before{.samples = {8, 8, 21}, .rule = rule, .steps = 5};
    before.at_end = [&](ShardedTables& sharded) {
      const checkpoint::State state = sharded.state();
      const std::lock_guard lock(mutex);
      values = state.values;
      for (const checkpoint::Piece& piece : state.pieces) {
        const auto view = std::get<ConstView>(piece.values);
        std::int64_t elements = 1;
        for (const std::int64_t dimension : piece.shape) elements *= dimension;
        auto& tensor = tensors[piece.tensor];
        tensor.resize(static_cast<std::size_t>(elements) * size_of(view.dtype()));
        std::copy_n(view.bytes(), view.size_bytes(),
                    tensor.data() + static_cast<std::size_t>(piece.first) * size_of(view.dtype()));
      }
    };
    (void)before.run();
    Training after{.samples = {20, 17}, .rule = rule, .first_step = 5, .steps = 4};
    after.at_start = [&](ShardedTables& sharded) {
      sharded.load_state(values, [&](std::span<const checkpoint::Wanted> wanted) {
        for (const checkpoint::Wanted& one : wanted) {
          const auto view = std::get<View>(one.values);
          std::copy_n(
              tensors.at(one.tensor).data() + static_cast<std::size_t>(one.first) * size_of(view.dtype()),
              view.size_bytes(), view.bytes());
        }
      });
      EXPECT_EQ(sharded.steps(), 5);
    };
    expect_twin(after, "resumed");
  }
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

}  // namespace
}  // namespace weft::embedding
