// NCCL's costs, derived again, beside those of NCCL's own code; and the table that NCCL prints, read back.

#include "weft-report/bandwidth/cost_model.hpp"

#include <gtest/gtest.h>

#include "unit/tools/weft-report/bandwidth/printers.hpp"
#include "weft-report/bandwidth/cost_constants.hpp"
#include "weft-report/bandwidth/tuning_table.hpp"
#include "weft/core/error.hpp"

namespace weft::report::bandwidth {
namespace {

using enum Collective;
using enum Algorithm;
using enum Protocol;
using weft::test::Draw;

Graph graph(int pattern, int channels, double intra, double inter, const char* near, const char* far,
            bool same) {
  return {.pattern = pattern,
          .channels = channels,
          .intra = intra,
          .inter = inter,
          .type_intra = near,
          .type_inter = far,
          .same_channels = same};
}
Machine machine(int ranks, int nodes, int capability, Processor processor, int channels,
                const Graph& ring_graph, const Graph& tree_graph, const Graph& nvls_graph) {
  Machine one{
      .ranks = ranks, .nodes = nodes, .capability = capability, .processor = processor, .channels = channels};
  for (const Algorithm a : {ring, pat}) one.graphs[static_cast<std::size_t>(a)] = ring_graph;
  one.graphs[static_cast<std::size_t>(tree)] = tree_graph;
  for (const Algorithm a : {nvls, nvls_tree}) one.graphs[static_cast<std::size_t>(a)] = nvls_graph;
  return one;
}
const Machine eight_h100 =
    machine(8, 1, 90, Processor::intel, 24, graph(4, 12, 30, 30, "NVL", "PIX", true),
            graph(1, 12, 30, 30, "NVL", "PIX", true), graph(5, 16, 20, 20, "NVL", "PIX", true));
const Machine two_nodes_h100 =
    machine(16, 2, 90, Processor::amd, 16, graph(4, 8, 48, 48, "NVL", "PXB", false),
            graph(1, 8, 40, 40, "NVL", "PXB", false), graph(5, 16, 20, 24, "NVL", "PXB", false));
const Machine sixteen_nodes_h100 =
    machine(128, 16, 90, Processor::intel, 16, graph(4, 8, 40, 24, "NVL", "PXN", false),
            graph(1, 8, 48, 24, "NVL", "PXN", false), graph(5, 8, 24, 24, "NVL", "PXN", false));
const Machine pcie_v100 =
    machine(8, 2, 70, Processor::intel, 4, graph(4, 2, 10, 10, "PHB", "PHB", true),
            graph(3, 2, 10, 10, "PHB", "PHB", true), graph(5, 0, 0, 0, "PHB", "PHB", true));
const Machine one_gpu_a100 =
    machine(4, 4, 80, Processor::mixed, 4, graph(4, 2, 20, 12, "PIX", "PIX", false),
            graph(3, 2, 20, 12, "PIX", "PIX", false), graph(5, 0, 0, 0, "PIX", "PIX", false));
const Machine two_nodes_b200 =
    machine(16, 2, 100, Processor::intel, 32, graph(4, 16, 40, 40, "NVL", "PXN", true),
            graph(1, 16, 40, 40, "NVL", "PXN", true), graph(5, 16, 40, 44, "NVL", "PXN", true));

TEST(CostModel, GivesTheCostsOfEachVersionOfNccl) {
  struct Case {
    Machine on;
    NcclVersion version;
    Collective c;
    Algorithm a;
    Protocol p;
    double latency;
    double bandwidth;
    std::int64_t bytes;
    double microseconds;
  };
  const std::vector<Case> cases{
#include "unit/tools/weft-report/bandwidth/cost_cases.inc"
  };
  for (const Case& one : cases) {
    Machine on = one.on;
    on.version = one.version;
    const CostTable costs = model(on);
    const Cost& cost = costs.at(one.c, one.a, one.p);
    const std::string what = text(name(one.version), ' ', name(one.c), ' ', name(one.a), ' ', name(one.p));
    EXPECT_NEAR(cost.latency, one.latency, 2e-4 * one.latency) << what;
    EXPECT_NEAR(cost.bandwidth, one.bandwidth, 2e-4 * one.bandwidth) << what;
    EXPECT_NEAR(microseconds(costs, one.c, one.a, one.p, one.bytes, on), one.microseconds,
                2e-4 * one.microseconds)
        << what;
  }
}

TEST(CostModel, ChangesFromLatencyToBandwidthWithTheSize) {
  Machine on = sixteen_nodes_h100;
  on.version = {{2, 28, 9}};
  const CostTable costs = model(on);
  EXPECT_EQ(choose(costs, all_reduce, 8, on).protocol, ll);
  EXPECT_EQ(choose(costs, all_reduce, 8, on).algorithm, tree);
  EXPECT_EQ(choose(costs, all_reduce, std::int64_t{8} << 30, on).protocol, simple);
  for (std::int64_t bytes = 8, before = 0; bytes < (std::int64_t{8} << 30); before = bytes, bytes *= 2) {
    if (before > 0) {
      EXPECT_LE(choose(costs, all_gather, before, on).microseconds,
                choose(costs, all_gather, bytes, on).microseconds);
    }
  }
}

TEST(CostModel, CorrectsTreesOnlyOfSizesInItsTable) {
  EXPECT_EQ(tree_correction(ll, 0), 1);
  EXPECT_EQ(tree_correction(ll, 63), 1);
  EXPECT_EQ(tree_correction(simple, 64), 0.9);
  EXPECT_EQ(tree_correction(ll, std::int64_t{1} << 18), 0.4);
  EXPECT_EQ(tree_correction(simple, std::int64_t{1} << 28), 0.9);
  EXPECT_EQ(tree_correction(simple, std::int64_t{1} << 29), 1);
  EXPECT_EQ(tree_correction(simple, std::int64_t{1} << 29, 24), 0.9);
  EXPECT_EQ(cost_constants({{2, 28, 9}}).nvls_efficiency[2], 0.85);
}

TEST(CostModel, RefusesVersionsThatItDoesNotKnow) {
  Machine on = eight_h100;
  for (const NcclVersion version : {NcclVersion{{2, 17, 1}}, NcclVersion{{2, 31, 0}}}) {
    on.version = version;
    EXPECT_THROW(model(on), Error);
  }
  on.version = {{2, 28, 9}};
  on.ranks = 1;
  EXPECT_LT(choose(model(on), all_reduce, 1024, on).microseconds, 0);
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
