#include "unit/tools/weft-report/bandwidth/printers.hpp"
#include "unit/tools/weft-report/nccl/rule_examples.hpp"

namespace weft::report::nccl::test {
namespace {

using bandwidth::Algorithm;
using bandwidth::Collective;
using bandwidth::CostTable;
using bandwidth::Protocol;
using bandwidth::test::print;

constexpr std::int64_t mib = 1 << 20;

std::string says(const std::string& message) {
  return "node1:700:701 [0] NCCL INFO " + message + "\n";
}

/// The lines before a table: `nodes` hosts with `local` ranks each.
std::string run(const char* op, int nodes, int local, const char* device = "NVIDIA H100 80GB HBM3") {
  std::string page = print("# Collective test starting: %s_perf\n# Using devices\n", op);
  for (int i = 0; i < nodes * local; ++i)
    page += print("#  Rank %2d Group  0 Pid %6d on node%d device %2d [0000:18:00] %s\n", i, 700 + i,
                  i / local + 1, i % local, device);
  return page +
         "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   "
         "algbw   "
         "busbw  #wrong\n";
}

std::string half(std::int64_t bytes, double algbw, double factor, int wrong) {
  return print("  %7s  %6.2f  %6.2f  %6d",
               bandwidth::test::fitted(static_cast<double>(bytes) / algbw / 1e3, 7).c_str(), algbw,
               algbw * factor, wrong);
}
/// A row of all_reduce, out of place and in place.
std::string row(std::int64_t bytes, int ranks, double busbw, double in_place, int wrong = 0) {
  const double factor = 2.0 * (ranks - 1) / ranks;
  return print("%12lld  %12lld     float     sum      -1", static_cast<long long>(bytes),
               static_cast<long long>(bytes / 4)) +
         half(bytes, busbw / factor, factor, wrong) + half(bytes, in_place / factor, factor, 0) + "\n";
}
std::string row(std::int64_t bytes, int ranks, double busbw) {
  return row(bytes, ranks, busbw, busbw);
}
std::string timed_row(std::int64_t bytes, double microseconds) {
  const std::string measured = print("  %7.2f    0.01    0.01       0", microseconds);
  return print("%12lld  %12lld     float     sum      -1", static_cast<long long>(bytes),
               static_cast<long long>(bytes / 4)) +
         measured + measured + "\n";
}

std::string port(int index, int megabits) {
  return says(print("NET/IB: [%d] mlx5_%d:uverbs%d:1/IB provider=Mlx5 speed=%d context=0x1 pciPath=/sys ar=1",
                    index, index, index, megabits));
}
std::string eight_ports() {
  std::string all;
  for (int i = 0; i < 8; ++i) all += port(i, 400000);
  return all;
}
const std::string links = says("=== System : maxBw 48.0 totalBw 370.8 ===");
const std::string no_nvls = says("16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels");
const std::string shape = says("comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0");
const std::string version = says("NCCL version 2.28.9+cuda13.0");
const std::string member = says(
    "ncclCommInitRank comm 0x1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 18000 commId 0x5 - Init COMPLETE");
const std::string one_node = says("comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0");
const std::string graphs =
    says("Pattern 4, crossNic 0, nChannels 12, bw 30.000000/30.000000, type NVL/PIX, sameChannels 1") +
    says("Pattern 1, crossNic 0, nChannels 12, bw 30.000000/30.000000, type NVL/PIX, sameChannels 1");

/// Costs as of one ring, and of one tree that is faster for small sizes.
CostTable costs(double ring_bandwidth, double tree_bandwidth) {
  CostTable table;
  table.at(Collective::all_reduce, Algorithm::ring, Protocol::simple) = {60, ring_bandwidth};
  table.at(Collective::all_reduce, Algorithm::tree, Protocol::ll) = {15, tree_bandwidth};
  return table;
}
std::string tuning(const CostTable& table) {
  return bandwidth::test::costs_text(table, 0, 3, "node1:700:701 [0] NCCL INFO ");
}
std::string known_job() {
  return version + member + one_node + links + graphs + no_nvls;
}

}  // namespace

const std::vector<RuleExample>& bandwidth_examples() {
  static const std::string big = run("all_reduce", 1, 8);
  static const std::string slow_rows = row(mib, 8, 10) + row(1024 * mib, 8, 90);
  static const std::vector<RuleExample> all{
      {"wrong-results", big + row(1024 * mib, 8, 350, 350, 3), big + row(1024 * mib, 8, 350)},
      {"average-bandwidth-low", big + row(mib, 8, 90) + "# Avg bus bandwidth    : 90.1 FAILED\n",
       big + row(mib, 8, 90) + "# Avg bus bandwidth    : 90.1 OK\n"},
      {"bandwidth-low", links + no_nvls + big + slow_rows, links + no_nvls + big + row(1024 * mib, 8, 340)},
      // Only the name of the GPU tells of links; a GPU on a PCIe card has none that it tells of.
      {"bandwidth-low", big + slow_rows, run("all_reduce", 1, 8, "NVIDIA H100 PCIe") + slow_rows},
      // A size that is too small for any bound.
      {"bandwidth-low", links + no_nvls + big + slow_rows, links + no_nvls + big + row(mib, 8, 90)},
      // What NCCL's search found over PCIe.
      {"bandwidth-low",
       says("Pattern 4, crossNic 0, nChannels 2, bw 12.000000/12.000000, type PHB/PIX, sameChannels 1") +
           run("all_reduce", 1, 2, "NVIDIA L40S") + row(1024 * mib, 2, 6),
       says("Pattern 4, crossNic 0, nChannels 2, bw 12.000000/12.000000, type PHB/PIX, sameChannels 1") +
           run("all_reduce", 1, 2, "NVIDIA L40S") + row(1024 * mib, 2, 20)},
      {"one-nic-of-several", eight_ports() + shape + run("all_reduce", 2, 8) + row(1024 * mib, 16, 46),
       eight_ports() + shape + run("all_reduce", 2, 8) + row(1024 * mib, 16, 360)},
      {"one-nic-of-several", eight_ports() + shape + run("all_reduce", 2, 8) + row(1024 * mib, 16, 46),
       port(0, 400000) + shape + run("all_reduce", 2, 8) + row(1024 * mib, 16, 46)},
      {"socket-speed",
       says("Using network Socket") + shape + run("all_reduce", 2, 8) + row(1024 * mib, 16, 3),
       says("Using network Socket") + one_node + big + row(1024 * mib, 8, 350)},
      {"results-differ", big + row(1024 * mib, 8, 350) + run("all_reduce", 1, 8) + row(1024 * mib, 8, 200),
       big + row(1024 * mib, 8, 350) + run("all_gather", 1, 8) + row(1024 * mib, 8, 200)},
      {"size-falls-off", big + row(mib, 8, 90) + row(2 * mib, 8, 50) + row(1024 * mib, 8, 350),
       big + row(mib, 8, 90) + row(2 * mib, 8, 80) + row(1024 * mib, 8, 350)},
      // One measurement was disturbed.
      {"size-falls-off", big + row(mib, 8, 90) + row(2 * mib, 8, 50) + row(1024 * mib, 8, 350),
       big + row(mib, 8, 90) + row(2 * mib, 8, 50, 120) + row(1024 * mib, 8, 350)},
      {"in-place-differs",
       big + row(256 * mib, 8, 330, 200) + row(512 * mib, 8, 340, 200) + row(1024 * mib, 8, 350, 210),
       big + row(256 * mib, 8, 330, 200) + row(512 * mib, 8, 340, 335) + row(1024 * mib, 8, 350, 210)},
      {"latency-high",
       known_job() + tuning(costs(200, 190)) + big + timed_row(8, 400) + row(1024 * mib, 8, 350),
       known_job() + tuning(costs(200, 190)) + big + timed_row(8, 40) + row(1024 * mib, 8, 350)},
      {"choice-contradicted",
       known_job() + tuning(costs(200, 190)) + big + row(256 * mib, 8, 130) + row(512 * mib, 8, 140),
       known_job() + tuning(costs(200, 190)) + big + row(256 * mib, 8, 330) + row(512 * mib, 8, 330)},
  };
  return all;
}

}  // namespace weft::report::nccl::test
