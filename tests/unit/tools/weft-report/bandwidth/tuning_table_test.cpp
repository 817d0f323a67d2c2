// The table of costs that NCCL prints, read back, and what its costs say of a size.

#include "weft-report/bandwidth/tuning_table.hpp"

#include <gtest/gtest.h>

#include "unit/tools/weft-report/bandwidth/printers.hpp"

namespace weft::report::bandwidth {
namespace {

using enum Collective;
using enum Algorithm;
using enum Protocol;
using weft::test::Draw;

TEST(Costs, ChangeFromLatencyToBandwidthWithTheSize) {
  CostTable costs;
  costs.at(all_reduce, tree, ll) = {20, 30};
  costs.at(all_reduce, ring, simple) = {80, 200};
  costs.at(all_reduce, nvls, simple) = {25, 0};  // switched off
  const Communicator of{.version = {{2, 28, 9}}, .ranks = 8};
  EXPECT_EQ(choose(costs, all_reduce, 8, of).algorithm, tree);
  EXPECT_NEAR(choose(costs, all_reduce, 8, of).microseconds, 20, 0.01);
  EXPECT_EQ(choose(costs, all_reduce, std::int64_t{1} << 30, of).algorithm, ring);
  EXPECT_NEAR(microseconds(costs, all_reduce, ring, simple, std::int64_t{1} << 30, of),
              80 + (1 << 30) / 200e3, 0.01);
  EXPECT_LT(microseconds(costs, all_reduce, nvls, simple, 1024, of), 0);
  EXPECT_LT(choose(costs, all_gather, 1024, of).microseconds, 0);
  const Communicator wide{.version = {{2, 28, 9}}, .ranks = 16, .nodes = 2, .channels = 4};
  EXPECT_NEAR(microseconds(costs, all_reduce, ring, simple, 4096, wide), 1.4 * 80 + 4096 / 200e3, 0.01);
}

TEST(Costs, CorrectsTreesOnlyOfSizesInItsTable) {
  EXPECT_EQ(tree_correction(ll, 0), 1);
  EXPECT_EQ(tree_correction(ll, 63), 1);
  EXPECT_EQ(tree_correction(simple, 64), 0.9);
  EXPECT_EQ(tree_correction(ll, std::int64_t{1} << 18), 0.4);
  EXPECT_EQ(tree_correction(simple, std::int64_t{1} << 28), 0.9);
  EXPECT_EQ(tree_correction(simple, std::int64_t{1} << 29), 1);
  EXPECT_EQ(tree_correction(simple, std::int64_t{1} << 29, 24), 0.9);
}

TuningTable read(const std::string& page, std::int64_t printer = 7, TuningTable table = {}) {
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t end = page.find('\n', at);
    take_tuning(std::string_view(page).substr(at, end - at), printer, {"log", 1, "line"}, table);
    at = end + 1;
  }
  return table;
}

TEST(TuningTables, AreReadBack) {
  Draw draw(1);
  for (int i = 0; i < 100; ++i) {
    CostTable costs;
    for (Cost& one : costs.costs)
      one = {draw.below(100000) / 10.0, draw.once_in(3) ? 0 : draw.below(9000) / 10.0};
    const TuningTable table = read(test::costs_text(costs, 0, 3, "") + test::costs_text(costs, 3, 3, "") +
                                   test::costs_text(costs, 6, 1, ""));
    EXPECT_EQ(table.known.size(), costs.costs.size());
    for (std::size_t at = 0; at < costs.costs.size(); ++at) {
      EXPECT_EQ(table.costs.costs[at].latency, costs.costs[at].latency);
      EXPECT_EQ(table.costs.costs[at].bandwidth, costs.costs[at].bandwidth);
    }
  }
}

TEST(TuningTables, OfOldVersionsNameProtocolsInEachColumn) {
  const TuningTable table = read(
      "Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Tree/Simple |    Ring/    LL |    Ring/ LL128 |"
      "    Ring/Simple | CollNet/Simple |\n"
      "    AllReduce |    18.4/   4.8 |    39.0/   0.0 |   204.4/   5.5 |    34.6/   3.0 |    84.0/   0.0 |"
      "   230.2/   6.0 |     0.0/   0.0 |\n");
  EXPECT_EQ(table.known.size(), 7U);
  EXPECT_EQ(table.costs.at(all_reduce, ring, simple).bandwidth, 6.0);
  EXPECT_EQ(table.costs.at(all_reduce, tree, ll).latency, 18.4);
}

TEST(TuningTables, OfAnotherCommunicatorAndCutRowsChangeNothing) {
  CostTable costs;
  for (Cost& one : costs.costs) one = {1, 2};
  CostTable other;
  for (Cost& one : other.costs) one = {3, 4};
  TuningTable table = read(test::costs_text(costs, 0, 3, ""));
  table = read(test::costs_text(other, 0, 3, ""), 7, table);   // the same process, a second communicator
  table = read(test::costs_text(other, 3, 3, ""), 99, table);  // another process
  EXPECT_EQ(table.known.size(), 45U);
  EXPECT_EQ(table.costs.at(all_reduce, ring, ll).latency, 1);
  std::string page = test::costs_text(costs, 0, 3, "");
  page.resize(page.rfind('/'));
  EXPECT_EQ(read(page + "\n").known.size(), 36U);  // the last row, of all_reduce, was cut
}

TEST(TuningTables, ChoicesHaveSeveralForms) {
  TuningTable table;
  const auto take = [&](const char* line) { return take_tuning(line, 1, {"log", 1, line}, table); };
  EXPECT_TRUE(take("AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}"));
  EXPECT_TRUE(take("ReduceScatter: 4096 Bytes -> Algo COLLNET_DIRECT proto SIMPLE channel{Lo..Hi}={0..15}"));
  EXPECT_TRUE(take("AllGather: 64 Bytes -> Algo 1 proto 0 time 12.500000"));
  EXPECT_FALSE(
      take("1048576 Bytes -> Algo 1 proto 2 time 12.500000"));  // of which collective it does not say
  EXPECT_FALSE(take("AllReduce: 1048576 Bytes -> Algo RING proto LL"));  // cut: it may have been LL128
  EXPECT_FALSE(take("AllReduce: -5 Bytes -> Algo RING proto LL128 channel"));
  EXPECT_FALSE(take("AllReduce: 1048576 Bytes -> Algo 9 proto 2 time 1"));
  EXPECT_EQ(table.chosen.size(), 3U);
  EXPECT_EQ(table.chosen.at({all_reduce, 1048576}).protocol, ll128);
  EXPECT_EQ(table.chosen.at({reduce_scatter, 4096}).algorithm, collnet_direct);
}

}  // namespace
}  // namespace weft::report::bandwidth
