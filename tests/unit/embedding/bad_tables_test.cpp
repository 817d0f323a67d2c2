// Misuse of ShardedTables: each is one line that names what is wrong.

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.hpp"
#include "weft/embedding/sharded_tables.hpp"

namespace weft::embedding {
namespace {

using test::expect_error;

const std::vector<Table> two_tables{{"user", 100, 4}, {"item", 50, 2}};

TEST(BadTables, RanksWithDifferentOnesAreNamed) {
  run_as_threads(3, [](Communicator comm) {
    std::vector<Table> mine = two_tables;
    if (comm.rank() == 2) mine[1].rows = 51;
    expect_error(
        ErrorKind::mismatch,
        {"ranks have different embedding tables", "item, 50 rows of 2", "item, 51 rows of 2", "rank 2"},
        [&] { ShardedTables(comm, mine); });
  });
  run_as_threads(2, [](Communicator comm) {
    TablesOptions options;
    options.rule = RowSgd{comm.rank() == 0 ? 0.1 : 0.2};
    expect_error(ErrorKind::mismatch, {"train embedding tables differently", "0.1", "0.2"},
                 [&] { ShardedTables(comm, two_tables, options); });
  });
  run_as_threads(2, [](Communicator comm) {
    TablesOptions options;
    options.placement = RowPlacement{{{128, {comm.rank()}}, {64, {0}}}, {}};
    expect_error(ErrorKind::mismatch, {"different embedding tables", "user"},
                 [&] { ShardedTables(comm, two_tables, options); });
  });
}

TEST(BadTables, RulesAndPlacementsThatMakeNoSense) {
  const Communicator comm = self();
  const auto refused = [&](const TablesOptions& options, std::initializer_list<std::string> words) {
    expect_error(ErrorKind::usage, words, [&] { ShardedTables(comm, two_tables, options); });
  };
  refused({.rule = RowSgd{-1}}, {"learning_rate is -1"});
  refused({.rule = RowAdaGrad{.epsilon = 0}}, {"epsilon is 0"});
  refused({.rule = LazyAdamW{.beta1 = 1}}, {"beta1 is 1"});
  refused({.rule = LazyAdamW{.weight_decay = std::numeric_limits<double>::quiet_NaN()}},
          {"weight_decay is nan"});
  refused({.placement = RowPlacement{{{128, {0}}}, {}}}, {"a placement of 1 tables, and there are 2"});
  refused({.placement = RowPlacement{{{100, {0}}, {64, {0}}}, {}}},
          {"table user has blocks of 100 rows", "power of two"});
  refused({.placement = RowPlacement{{{64, {0}}, {64, {0}}}, {}}},
          {"table user has 1 blocks, and 100 rows are 2 of 64"});
  refused({.placement = RowPlacement{{{128, {1}}, {64, {0}}}, {}}}, {"names rank 1 of 1"});
}

TEST(BadTables, CallsInAWrongOrderOrWithWrongMemory) {
  ShardedTables sharded(self(), two_tables);
  const std::vector<std::int64_t> indices{3};
  const std::vector<std::int64_t> offsets{0, 1};
  const std::vector<std::int64_t> none{0};
  const std::vector<Bags> bags{{indices, offsets}, {indices, offsets}};
  std::vector<float> user(4);
  std::vector<float> item(2);
  const std::vector<View> out{View(std::span(user)), View(std::span(item))};
  const std::vector<ConstView> gradients{out[0], out[1]};
  Stream compute;
  expect_error(ErrorKind::usage, {"step() without a look_up()"}, [&] { sharded.step(gradients, compute); });
  expect_error(ErrorKind::usage, {"look_up() without a request()"}, [&] { sharded.look_up(out, compute); });
  expect_error(ErrorKind::usage, {"bags of 1 tables, and there are 2"},
               [&] { sharded.request(std::span(bags).first(1)); });
  const std::vector<Bags> uneven{{indices, offsets}, {{}, none}};
  expect_error(ErrorKind::usage, {"table item has bags of 0 samples, and table user of 1"},
               [&] { sharded.request(uneven); });
  const std::vector<std::int64_t> far{50};
  const std::vector<Bags> outside{{indices, offsets}, {far, offsets}};
  expect_error(ErrorKind::usage, {"table item has 50 rows, and sample 0 reads row 50", "rank 0"},
               [&] { sharded.request(outside); });
  // What was refused has left nothing behind.
  sharded.request(bags);
  expect_error(ErrorKind::usage, {"the output of table item has 4 f32", "1 samples x 2 columns"}, [&] {
    sharded.look_up(std::vector<View>{out[0], out[0]}, compute);
  });
  sharded.look_up(out, compute);
  expect_error(ErrorKind::usage, {"the gradient of table user has 2 f32"}, [&] {
    sharded.step(std::vector<ConstView>{gradients[1], gradients[1]}, compute);
  });
  expect_error(ErrorKind::usage, {"a learning rate of -1"}, [&] { sharded.step(gradients, compute, -1.0); });
  sharded.step(gradients, compute);
  EXPECT_EQ(sharded.steps(), 1);
  expect_error(ErrorKind::usage, {"step() without a look_up()"}, [&] { sharded.step(gradients, compute); });
  expect_error(ErrorKind::usage, {"row 100 of table 0"}, [&] { (void)sharded.row(0, 100); });
}

TEST(BadTables, ACheckpointOfOtherTablesOrRules) {
  ShardedTables sharded(self(), two_tables);
  expect_error(ErrorKind::usage, {"a checkpoint without tables that begin with user"},
               [&] { sharded.load_state({}, {}); });
  ShardedTables other(self(), two_tables, {.rule = RowSgd{}});
  const checkpoint::State state = other.state();
  expect_error(ErrorKind::usage, {"a checkpoint of RowSgd, and the rule is RowAdaGrad"},
               [&] { sharded.load_state(state.values, {}); });
}

}  // namespace
}  // namespace weft::embedding
