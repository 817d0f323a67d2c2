// Links as logs state them, and a job whose log has NCCL's costs.

#include "weft-report/bandwidth/links.hpp"

#include <gtest/gtest.h>

#include "unit/tools/weft-report/bandwidth/printers.hpp"
#include "weft-report/nccl/judge.hpp"
#include "weft-report/nccl/nccl.hpp"

namespace weft::report::bandwidth {
namespace {

using weft::test::Draw;

const MakeEvidence here = [] { return Evidence{"log", 1, "line"}; };

TEST(BandwidthLinks, AreReadBack) {
  Draw draw(1);
  for (int i = 0; i < 300; ++i) {
    Links links;
    const int channels = 1 + draw.below(64);
    const double intra = draw.below(2000) / 10.0;
    const double inter = draw.below(2000) / 10.0;
    const char* form = draw.one_of<const char*>({"bw", "speed"});
    EXPECT_TRUE(
        take_link(test::print("Pattern %d, crossNic %d, nChannels %d, %s %f/%f, type %s/%s, sameChannels %d",
                              4, draw.below(2), channels, form, intra, inter, "NVL", "PXB", 1),
                  "node1", here, links));
    EXPECT_EQ(links.graphs.at(4).channels, channels);
    EXPECT_NEAR(links.graphs.at(4).intra, intra, 1e-6);
    EXPECT_NEAR(links.graphs.at(4).inter, inter, 1e-6);
    EXPECT_EQ(links.graphs.at(4).type_intra, "NVL");
    EXPECT_EQ(links.graphs.at(4).type_inter, "PXB");
    const double total = (1 + draw.below(7000)) / 10.0;
    const bool old = draw.once_in(2);
    EXPECT_TRUE(take_link(test::print(old ? "=== System : maxWidth %2.1f totalWidth %2.1f ==="
                                          : "=== System : maxBw %2.1f totalBw %2.1f ===",
                                      total / 2, total),
                          "node1", here, links));
    EXPECT_NEAR(links.gpu, total, 1e-9);
    const int megabits = 1000 * (1 + draw.below(800));
    EXPECT_TRUE(
        take_link(test::print("NET/IB: [%d] mlx5_%d:uverbs%d:1/%s provider=%s speed=%d context=%p pciPath=%s "
                              "ar=%d",
                              0, 3, 3, "RoCE", "Mlx5", megabits, static_cast<void*>(&links), "/sys/x", 0),
                  "node1", here, links));
    EXPECT_NEAR(links.nics_of_a_node(), megabits / 8000.0, 1e-9);
    EXPECT_TRUE(take_link(test::print("NET/IB : Made virtual device [%d] name=%s speed=%d ndevs=%d", 0,
                                      "mlx5_3", megabits * 2, 1),
                          "node2", here, links));
    EXPECT_TRUE(take_link(test::print("+ %s[%2.1f] - %s/%lx-%lx (%d/%lx/%d/%f)", "NET", 1.0, "NET", 0L, 1L, 0,
                                      77L, 1, megabits / 4000.0),
                          "node3", here, links));
    EXPECT_NEAR(links.nics_of_a_node(), megabits / 8000.0, 1e-9) << "the host with the least bounds";
    EXPECT_EQ(links.nics.at("node2").best().begin()->second.bw, megabits / 4000.0);
    EXPECT_NEAR(links.nics.at("node3").best().begin()->second.bw, megabits / 4000.0, 1e-6);
  }
}

TEST(BandwidthLinks, ThatWereCutOrAbsurdSayNothing) {
  Links links;
  for (const char* line :
       {"Pattern 4, crossNic 0, nChannels 16, bw 24.000000/24.0", "Pattern 4, crossNic 0, nChannels 16",
        "Pattern 99, crossNic 0, nChannels 16, bw 1/1, type NVL/PIX, sameChannels 1",
        "Pattern 4, crossNic 0, nChannels -1, bw 1/1, type NVL/PIX, sameChannels 1",
        "Pattern 4, crossNic 0, nChannels 1, bw nan/1, type NVL/PIX, sameChannels 1",
        "=== System : maxBw 48.0 totalBw 37", "=== System : maxBw 5000.0 totalBw 5000.0 ===",
        "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=4", "NET/IB: [0] mlx5_0:uverbs0:1/IB speed=-1 x",
        "+ NET[12.5] - NET/0-0 (0/1/1/12.50", "+ NET[12.5] - NET/0-0 (0/1/1/inf)", "CPU/0-0 (1/2",
        "16 coll channels, 16 collnet channels, -3 nvls channels"})
    EXPECT_FALSE(take_link(line, "node1", here, links)) << line;
  EXPECT_EQ(links.gpu, 0);
  EXPECT_EQ(links.nics_of_a_node(), 0);
  EXPECT_TRUE(links.graphs.empty());
}

TEST(BandwidthLinks, OfAGpuAreKnownByItsName) {
  EXPECT_NEAR(links_of_gpu("NVIDIA H100 80GB HBM3"), 370.8, 1e-9);
  EXPECT_NEAR(links_of_gpu("NVIDIA A100-SXM4-80GB"), 240, 1e-9);
  EXPECT_NEAR(links_of_gpu("Tesla V100-SXM2-32GB"), 120, 1e-9);
  EXPECT_NEAR(links_of_gpu("NVIDIA B200"), 721.8, 1e-9);
  EXPECT_EQ(links_of_gpu("NVIDIA H100 PCIe"), 0);
  EXPECT_EQ(links_of_gpu("NVIDIA A100-PCIE-40GB"), 0);
  EXPECT_EQ(links_of_gpu("a name of tomorrow"), 0);
  EXPECT_EQ(compute_capability("NVIDIA L40S"), 89);
  EXPECT_EQ(compute_capability("NVIDIA GeForce RTX 9999"), 0);
}

TEST(BandwidthJudge, ComparesMeasuredTimesWithTheCostsInTheLog) {
  const std::string at = "node1:7:8 [0] NCCL INFO ";
  const std::string content = at + "NCCL version 2.28.9+cuda13.0\n" + at + "CPU/0-0 (1/1/3)\n" + at +
                              "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0\n"
                              "# Collective test starting: all_reduce_perf\n";
  std::string table;
  for (int rank = 0; rank < 8; ++rank)
    table +=
        text("#  Rank  ", rank, " Group  0 Pid 7 on node1 device  ", rank, " [0x18] NVIDIA H100 80GB HBM3\n");
  table +=
      "        1024           256     float     sum      -1    30.00    0.03    0.06       0    30.00    0.03"
      "    0.06       0\n";
  nccl::JobLog without;
  without.add(content + table, "log");
  EXPECT_TRUE(choices_by_size(without.job()).empty());
  CostTable costs;
  costs.at(Collective::all_reduce, Algorithm::tree, Protocol::ll) = {10, 30};
  nccl::JobLog log;
  log.add(content + test::costs_text(costs, 0, 3, at) + table, "log");
  const std::vector<SizeChoice> choices = choices_by_size(log.job());
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0].bytes, 1024);
  EXPECT_EQ(choices[0].predicted.algorithm, Algorithm::tree);
  EXPECT_EQ(choices[0].measured, 30);
}

}  // namespace
}  // namespace weft::report::bandwidth
