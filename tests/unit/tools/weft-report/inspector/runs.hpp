#pragma once
// Files as NCCL's Inspector writes them, of runs that are made up: 64 ranks, healthy or with a rank that comes last or takes longer.
//
// Noise is taken from public files: the logarithm of in-place time over out-of-place time, divided by the root of 2, of the 2,559 lines of at
// least 1 MiB and 50 us in tables of nccl-tests that lie in the repositories argonne-lcf/alcf-nccl-tests (1,237), boeschf/nccl-benchmark-on-alps-2025
// (1,270), coreweave/nccl-tests (22), Azure/aks-rdma-infiniband (14), lessizzmore/create-a3mega-ztan-fork (14), Azure/ai-infrastructure-on-azure and
// aws-samples/awsome-distributed-training (1 each): 256 quantiles, in 1e-5. Half of them are below 0.6 %, one in ten above 5 %, one in a hundred above 40 %.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "weft-report/inspector/records.hpp"
#include "weft/core/text.hpp"

namespace weft::report::inspector::test {

inline constexpr std::array<int, 256> noise_quantiles{
    -70268, -45650, -31305, -21056, -16250, -13443, -11375, -10149, -9029, -7834, -7417, -6822, -6074, -5824,
    -5419,  -5174,  -4658,  -4357,  -3963,  -3787,  -3502,  -3266,  -3138, -2982, -2845, -2751, -2546, -2378,
    -2262,  -2151,  -2098,  -1984,  -1924,  -1875,  -1782,  -1739,  -1656, -1613, -1558, -1503, -1471, -1447,
    -1383,  -1356,  -1339,  -1308,  -1264,  -1244,  -1212,  -1172,  -1135, -1110, -1079, -1064, -1046, -1027,
    -1004,  -965,   -935,   -915,   -892,   -869,   -851,   -815,   -785,  -759,  -738,  -720,  -692,  -681,
    -659,   -633,   -623,   -596,   -578,   -556,   -528,   -516,   -497,  -487,  -480,  -463,  -447,  -435,
    -420,   -404,   -390,   -374,   -363,   -354,   -340,   -326,   -310,  -303,  -291,  -282,  -272,  -267,
    -260,   -253,   -242,   -235,   -226,   -214,   -206,   -199,   -195,  -186,  -183,  -176,  -169,  -161,
    -153,   -145,   -139,   -132,   -129,   -120,   -116,   -110,   -103,  -96,   -89,   -86,   -82,   -78,
    -72,    -68,    -63,    -59,    -53,    -48,    -45,    -42,    -40,   -37,   -32,   -30,   -27,   -24,
    -20,    -17,    -16,    -12,    -11,    -5,     0,      0,      4,     9,     12,    14,    21,    25,
    30,     35,     38,     42,     47,     51,     56,     62,     69,    74,    80,    84,    94,    100,
    105,    109,    114,    120,    128,    134,    144,    151,    164,   174,   184,   197,   205,   212,
    219,    226,    235,    248,    265,    276,    299,    312,    319,   332,   356,   371,   387,   395,
    414,    430,    453,    478,    494,    503,    526,    556,    589,   610,   633,   665,   697,   734,
    769,    798,    822,    862,    885,    925,    962,    983,    1048,  1079,  1109,  1155,  1208,  1275,
    1327,   1386,   1468,   1533,   1622,   1692,   1793,   1897,   1995,  2135,  2194,  2388,  2615,  2843,
    3203,   3359,   3552,   3843,   4181,   4383,   4609,   5060,   5716,  6340,  7271,  8001,  8419,  10326,
    11407,  14853,  27428,  43327};

/// A run. Times are in microseconds.
struct MadeUp {
  std::uint64_t seed = 1;
  int ranks = 64;
  int per_node = 8;
  int steps = 100;          ///< of an all_gather, a reduce_scatter and two all_reduces each
  int straggler = -1;       ///< rank
  double share = 0.03;      ///< of the operation's time
  bool waits = true;        ///< whether the others wait for it (true), or it takes longer itself
  bool whole_node = false;  ///< all ranks of its node
  double begins = 0;        ///< share of the run after which it straggles
  double slower_after =
      1;              ///< share of the run after which the first all_reduce takes 1.5 times as long; 1: never
  bool names = true;  ///< as 2.30 writes it, or as 2.28
  bool pretty = false;  ///< each object over several lines
};

inline double noise(std::mt19937_64& random) {
  return noise_quantiles[random() % noise_quantiles.size()] * 1e-5;
}

inline std::string object_of(const MadeUp& run, int rank, const char* op, int number, std::uint64_t bytes,
                             double microseconds, double seconds) {
  const std::string name = run.names ? std::string("\"comm_name\":\"DP Group 0\",") : std::string();
  const auto time = static_cast<std::uint64_t>(microseconds);
  std::string line = text(
      "{\"header\":{\"id\":\"0x7f8c496ae9f661\",", name, "\"rank\":", rank, ",\"n_ranks\":", run.ranks,
      ",\"nnodes\":", (run.ranks + run.per_node - 1) / run.per_node,
      "},\"metadata\":{\"inspector_output_format_version\":\"v4.0\",\"git_rev\":\"\",\"rec_mechanism\":"
      "\"nccl_profiler_interface\",\"dump_timestamp_us\":",
      static_cast<std::uint64_t>(1.7e15 + 1e6 * seconds), ",\"hostname\":\"node", rank / run.per_node,
      "\",\"pid\":", 1000 + rank, "},\"coll_perf\":{\"coll\":\"", op, "\",\"coll_sn\":", number,
      ",\"coll_msg_size_bytes\":", bytes, ",\"coll_exec_time_us\":", time,
      ",\"coll_timing_source\":\"kernel_gpu\",\"coll_algobw_gbs\":1.000000,\"coll_busbw_gbs\":1.000000}}\n");
  if (!run.pretty) return line;
  std::string broken;
  for (const char letter : line) {
    broken += letter;
    if (letter == '{' || letter == ',') broken += "\n  ";
  }
  broken.insert(broken.size() - 2, "\n");  // the last brace begins a line, as a printer has it
  return broken;
}

/// Calls visit(rank, word of the operation, number, bytes, microseconds, seconds since the run began) for each line of the files.
template <class Visit>
void each_line(const MadeUp& run, Visit&& visit) {
  struct Op {
    const char* name;
    std::uint64_t bytes;
    double microseconds;
    bool changes;
  };
  constexpr std::array<Op, 4> ops{Op{"AllGather", 1 << 20, 700, false}, Op{"AllReduce", 64 << 20, 1800, true},
                                  Op{"AllReduce", 1 << 20, 90, false},
                                  Op{"ReduceScatter", 1 << 20, 900, false}};
  std::mt19937_64 random(run.seed);
  for (int step = 0; step < run.steps; ++step) {
    const bool straggles = step >= run.begins * run.steps;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      const int number = i == 1 ? 2 * step : i == 2 ? 2 * step + 1 : step;
      double common = op.microseconds * std::exp(noise(random));
      if (op.changes && step >= run.slower_after * run.steps) common *= 1.5;
      for (int rank = 0; rank < run.ranks; ++rank) {
        double time = common * std::exp(noise(random));
        const bool is_it =
            rank == run.straggler || (run.whole_node && rank / run.per_node == run.straggler / run.per_node);
        if (run.straggler >= 0 && straggles && is_it != run.waits) time *= 1 + run.share;
        visit(rank, op.name, number, op.bytes, std::floor(std::max(1.0, time)), 0.5 * step);
      }
    }
  }
}

/// The file of each rank.
inline std::vector<std::string> files_of(const MadeUp& run) {
  std::vector<std::string> files(static_cast<std::size_t>(run.ranks));
  each_line(run, [&](int rank, const char* op, int number, std::uint64_t bytes, double time, double seconds) {
    files[static_cast<std::size_t>(rank)] += object_of(run, rank, op, number, bytes, time, seconds);
  });
  return files;
}

/// What a reader finds in them.
inline std::vector<FileRecords> records_of(const MadeUp& run) {
  std::vector<FileRecords> all(static_cast<std::size_t>(run.ranks));
  for (int rank = 0; rank < run.ranks; ++rank)
    all[static_cast<std::size_t>(rank)] = {
        .members = {{.id = "0x7f8c496ae9f661",
                     .name = run.names ? "DP Group 0" : "",
                     .rank = rank,
                     .ranks = run.ranks,
                     .nodes = (run.ranks + run.per_node - 1) / run.per_node,
                     .host = text("node", rank / run.per_node),
                     .pid = 1000 + rank}},
        .sizes = {}};
  each_line(run, [&](int rank, const char* op, int number, std::uint64_t bytes, double time, double seconds) {
    FileRecords& file = all[static_cast<std::size_t>(rank)];
    const Kind kind = kind_of(op);
    const std::uint64_t whole =
        bytes * (kind == Kind::all_reduce ? 1 : static_cast<std::uint64_t>(run.ranks));
    auto size = static_cast<std::uint16_t>(std::ranges::find(file.sizes, whole) - file.sizes.begin());
    if (size == file.sizes.size()) file.sizes.push_back(whole);
    ++file.objects;
    file.records.push_back({.number = static_cast<std::uint32_t>(number),
                            .microseconds = static_cast<float>(time),
                            .when = static_cast<std::uint32_t>(1.7e9 + seconds),
                            .member = 0,
                            .size = size,
                            .kind = kind,
                            .by_gpu = true});
  });
  return all;
}

}  // namespace weft::report::inspector::test
