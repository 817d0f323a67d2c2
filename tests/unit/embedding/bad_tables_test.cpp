// Misuse of ShardedTables: each is one line that names what is wrong.

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/uring.hpp"
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

TEST(BadTables, FilesThatMakeNoSense) {
  const auto refused = [&](ErrorKind kind, const RowFile& file, std::initializer_list<std::string> words) {
    std::vector<Table> tables = two_tables;
    tables[1].file = file;
    expect_error(kind, words, [&] { ShardedTables(self(), tables); });
  };
  refused(ErrorKind::usage, {.rows_in_memory = 3},
          {"table 1 (item) keeps 3 rows in memory, and names no folder", "RowFile::directory"});
  refused(ErrorKind::usage, {.directory = "/tmp", .rows_in_memory = -1}, {"table 1 (item) keeps -1 rows"});
  refused(ErrorKind::usage, {.directory = "/tmp", .refresh_every = 0}, {"table 1 (item)", "after 0 batches"});
  if (const auto why = test::why_no_uring()) GTEST_SKIP() << *why;
  refused(ErrorKind::system, {.directory = "/nowhere"},
          {"the file of table item: cannot make a file in /nowhere", "No such file", "rank 0", "local disk"});
  refused(ErrorKind::system, {.directory = "/proc/self/exe"},
          {"the file of table item: cannot make a file in /proc/self/exe", "Not a directory"});
}

TEST(BadTables, OnesThatAreLargerThanTheDiskOrThanMemory) {
  if (const auto why = test::why_no_uring()) GTEST_SKIP() << *why;
  const test::TemporaryFolder folder;
  Table huge{"huge", std::int64_t{1} << 26, 1 << 20, Pooling::sum, {.directory = folder.path()}};
  expect_error(ErrorKind::system,
               {"the file of table huge: ", " bytes are needed in " + folder.path(), " are free",
                "No space left on device", "rank 0"},
               [&] { ShardedTables(self(), {huge}); });
  huge.file.rows_in_memory = huge.rows;
  expect_error(
      ErrorKind::system,
      {"table huge keeps 67108864 of 67108864 rows of this rank in memory", "are left", "rows_in_memory"},
      [&] { ShardedTables(self(), {huge}); });
  // The other ranks hear of it.
  run_as_threads(2, [&](Communicator comm) {
    std::vector<Table> tables{{"user", 100, 4, Pooling::sum, {.directory = folder.path()}}};
    if (comm.rank() == 1) tables[0].file.directory = folder.path() + "/none";
    if (comm.rank() == 1)
      return expect_error(ErrorKind::system, {"cannot make a file in " + folder.path() + "/none", "rank 1"},
                          [&] { ShardedTables(comm, tables); });
    try {
      ShardedTables sharded(comm, tables);
      (void)sharded.row(0, 99);
      ADD_FAILURE() << "no error was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cannot make a file in"), std::string::npos) << error.what();
    }
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BadTables, RanksOfWhichOneHasFiles) {
  run_as_threads(2, [](Communicator comm) {
    std::vector<Table> mine = two_tables;
    if (comm.rank() == 1) mine[0].file.directory = "/tmp";
    expect_error(ErrorKind::mismatch, {"ranks have different embedding tables", "in files", "rank 1"},
                 [&] { ShardedTables(comm, mine); });
  });
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
