#pragma once
// The costs that NCCL prints with NCCL_DEBUG_SUBSYS=TUNING: rank 0's table, and the choice for each operation. Latencies are microseconds,
// bandwidths GB/s of algbw.
//
//     Algorithm   |                            Tree                  |                            Ring                  | ...    since 2.14
//     Protocol    |             LL |          LL128 |         Simple | ...
//    Max NThreads |            512 |            640 |            512 | ...
//       AllReduce |    13.4/  21.9 |    31.5/  42.1 |    64.4/  45.9 | ...
//   Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Tree/Simple | ...                                     the same up to 2.13
//   AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}

#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/findings/finding.hpp"
#include "weft-report/bandwidth/costs.hpp"

namespace weft::report::bandwidth {

struct Chosen {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  Evidence evidence{};
};

struct TuningTable {
  CostTable costs{};
  std::set<std::size_t> known{};  ///< indexes of costs that the log stated
  /// By collective and bytes as the line has them, the first of each: of all_gather and reduce_scatter those of one rank.
  std::map<std::pair<Collective, std::int64_t>, Chosen> chosen{};
  Evidence evidence{};  ///< the first line of the table
  /// The columns of the next row, by the heading that was read last.
  std::vector<std::pair<Algorithm, Protocol>> columns{};
  std::int64_t printer = -1;  ///< the process that began to print; another communicator's table is left out
  explicit operator bool() const { return !known.empty(); }
};

/// Takes a line of NCCL's log, without what stands before the message. @param printer its process
/// @return whether it belongs to the table. A row that was cut changes nothing
bool take_tuning(std::string_view message, std::int64_t printer, const Evidence& evidence,
                 TuningTable& table);

}  // namespace weft::report::bandwidth
