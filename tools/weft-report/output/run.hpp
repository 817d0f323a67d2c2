#pragma once
// What the logs of a job say, host by host: the facts that tables, pages, JSON and comparisons show. Plain values.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/findings/report.hpp"
#include "weft-report/nccl/job.hpp"

namespace weft::report {

/// What the processes of a host say together. Different values stand side by side.
struct HostFacts {
  std::string host{};  ///< empty: lines that name none
  std::size_t processes = 0;
  std::set<std::int64_t> ranks{};  ///< in the widest communicator
  std::set<std::string> versions{};
  std::set<std::string> drivers{};
  std::set<std::string> networks{};
  std::set<std::string> interfaces{};  ///< of the start-up
  std::set<std::string> nics{};        ///< "mlx5_0:1/IB"
  std::map<std::string, std::set<std::string>> settings{};
  int direct_on = 0;  ///< how often GPUDirect RDMA was said to be enabled, and disabled
  int direct_off = 0;
  int inits_started = 0;
  int inits_done = 0;
  nccl::Channels channels{};
};

/// Channels from one host to another, or from one rank to another.
struct Link {
  std::size_t from = 0;  ///< index of the host, their number for one whose log is not there; or rank
  std::size_t to = 0;
  nccl::Channels channels{};
};

/// busbw of a size, by the operation and what else tells tables apart: "all_reduce float sum, 16 ranks".
using Bandwidths = std::map<std::string, std::map<std::int64_t, double>>;

struct RunFacts {
  std::vector<Finding> findings{};
  std::vector<HostFacts> hosts{};  ///< by name
  std::vector<std::string> skipped{};
  std::vector<Link> host_links{};  ///< by host of the peer where its rank is known
  std::vector<Link> rank_links{};
  Bandwidths bandwidths{};
  std::int64_t lines = 0;
  std::size_t processes = 0;
};

/// @param findings of `job` @param skipped files that could not be read
RunFacts run_of(const nccl::Job& job, std::vector<Finding> findings, std::vector<std::string> skipped);

/// "48,211 lines of 16 processes on 2 hosts"
std::string looked_at(const RunFacts& run);
/// "P2P", "SHM", "TCP", "RDMA", "GPUDirect", with the counts, in the order of tables.
std::vector<std::pair<std::string, int>> by_carrier(const nccl::Channels& channels);
/// "a, b"; "-" for none
std::string joined(const std::set<std::string>& values);
/// A row for each host, or, in a job of more than 32, for those that say the same; the fewest first.
TextTable hosts_table(const RunFacts& run);

}  // namespace weft::report
