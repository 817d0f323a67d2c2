#pragma once
// Tables of benchmarks that measured collectives: nccl-tests (text and JSON) and weft-bench (JSON). Plain values; a number that the file
// does not state is -1, a text empty.
//
//   GB/s are 1e9 bytes a second. bytes is nccl-tests' size: the whole buffer, for all_gather and reduce_scatter that of all ranks.
//   algbw = bytes / time;  busbw = algbw * factor of the operation: what a ring would move over its slowest link

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report::bandwidth {

/// One measurement.
struct Measured {
  double microseconds = 0;
  double algbw = 0;         ///< GB/s
  double busbw = 0;         ///< GB/s
  std::int64_t wrong = -1;  ///< wrong values; -1: not checked
};

struct Row {
  std::int64_t bytes = 0;
  std::string dtype{};
  std::string redop{};  ///< "sum"; empty where the operation reduces nothing
  std::int64_t root = -1;
  std::optional<Measured> out_of_place{};
  std::optional<Measured> in_place{};
  int line = 0;        ///< of the file; 0 in JSON
  std::string text{};  ///< of that line
  /// The faster of the two. WRONG for a row that has neither; readers make none.
  const Measured& best() const {
    if (!in_place) return *out_of_place;
    return !out_of_place || in_place->busbw > out_of_place->busbw ? *in_place : *out_of_place;
  }
};

struct Table {
  std::string op{};       ///< "all_reduce"; empty: not stated, and not to be told from the figures
  std::string version{};  ///< of the benchmark
  std::int64_t ranks = -1;
  std::set<std::string> hosts{};  ///< that its ranks run on
  std::int64_t nodes = -1;        ///< as the file states it; -1: it does not, and hosts are counted
  bool links_alone = true;        ///< whether no process beside its ranks uses their nodes' network cards
  std::string device{};           ///< "NVIDIA H100 80GB HBM3"
  std::vector<Row> rows{};        ///< as printed, at most most_rows
  std::int64_t left_out = 0;      ///< rows beyond that
  double average_busbw = -1;      ///< "Avg bus bandwidth"
  std::string average_verdict{};  ///< "OK" or "FAILED": compared with NCCL_TESTS_MIN_BW
  std::int64_t out_of_bounds = -1;
  Evidence heading{};
  Evidence average{};

  static constexpr std::size_t most_rows = 512;
  void add(Row row) {
    if (rows.size() < most_rows) {
      rows.push_back(std::move(row));
    } else {
      ++left_out;
    }
  }
  /// weft-bench moves memory of hosts, to which links of GPUs say nothing.
  bool on_gpus() const { return !version.starts_with("weft-bench"); }
  /// The row of the largest size, the last of them; null: no row.
  const Row* largest() const {
    const auto found = std::ranges::max_element(rows, std::less_equal<>(), &Row::bytes);
    return found == rows.end() ? nullptr : &*found;
  }
};

/// busbw / algbw of an operation of nccl-tests. 0: an operation that is not known, or fewer than 2 ranks.
double bus_factor(const std::string& op, std::int64_t ranks);

}  // namespace weft::report::bandwidth
