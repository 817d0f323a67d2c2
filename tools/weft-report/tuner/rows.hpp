#pragma once
// Rows of a tuner's table, in the format of the example plug-in that comes with NCCL 2.28 (ext-tuner/example):
//
//   collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]
//   allreduce,1048576,67108864,ring,ll128,-1,2,16
//
// -1 stands for any; for channels it leaves the number to NCCL. A line that begins with # is a comment, and so is one with the names of the columns.
// Sizes are those of nccl-tests: of the larger buffer, in total. max_bytes 4294967295, which that format calls the largest, has no limit here.
//
//   const Table table = Table::parse(content);
//   for (const BadRow& bad : table.bad) say(bad.line, bad.problem);    // the others stand
//   for (const Row& row : table.rows)                                  // the first that fits counts
//     if (row.fits(ranks, nodes) && row.matches(collective, bytes, pipe_ops, registered)) ...

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::tuner {

/// In the order of NCCL's numbers (src/include/nccl_common.h and plugin/nccl_tuner.h of 2.30.7).
inline constexpr std::array<std::string_view, 5> collective_names{"broadcast", "reduce", "allgather",
                                                                  "reducescatter", "allreduce"};
inline constexpr std::array<std::string_view, 7> algorithm_names{
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
inline constexpr std::array<std::string_view, 3> protocol_names{"ll", "ll128", "simple"};

inline constexpr int any = -1;
/// What an interface that does not say it passes for `registered`: only rows for any buffer match.
inline constexpr int not_told = -2;
/// Of NCCL 2.30 (device.h, line 86). More would reach beyond its tables.
inline constexpr int most_channels = 64;

struct Row {
  int line = 0;  ///< in the file, from 1
  int collective = 0;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = UINT64_MAX;
  int algorithm = 0;
  int protocol = 0;
  int channels = any;
  int nodes = any;
  int ranks = any;
  int pipe_ops = any;
  int registered = any;

  bool fits(std::uint64_t communicator_ranks, std::uint64_t communicator_nodes) const;
  bool matches(int of_collective, std::uint64_t bytes, int of_pipe_ops, int of_registered) const;
  /// "ring/ll128, 8 channels"
  std::string choice() const;
};

struct BadRow {
  int line = 0;
  std::string problem;  ///< printable, whatever the file holds
};

struct Table {
  std::vector<Row> rows;
  std::vector<BadRow> bad;

  static Table parse(std::string_view content);
};

}  // namespace weft::tuner
