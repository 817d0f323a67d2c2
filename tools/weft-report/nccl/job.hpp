#pragma once
// What the logs of a job say, as facts: for each process its version, networks, connections and settings, and beside that what other
// tools printed into the same files. Rules conclude from it (rules.hpp). Plain values; a fact that no log line stated is empty.

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/findings/finding.hpp"
#include "weft-report/bandwidth/links.hpp"
#include "weft-report/bandwidth/tables.hpp"
#include "weft-report/bandwidth/tuning_table.hpp"
#include "weft-report/documents/documents.hpp"
#include "weft-report/topology/tools.hpp"

namespace weft::report::nccl {

using report::Fact;

/// What a line of a known format said first (formats.hpp).
struct Stated {
  std::vector<std::string> values{};
  Evidence evidence{};
};

/// Channels by what carries them; each channel and direction is counted.
struct Channels {
  int p2p = 0;
  int shm = 0;
  int socket = 0;
  int rdma = 0;         ///< over a network other than sockets, through host memory
  int rdma_direct = 0;  ///< the same from GPU memory (GPUDirect RDMA)

  int all() const { return p2p + shm + socket + rdma + rdma_direct; }
};

struct Connections : Channels {
  Evidence first_rdma{};
  Evidence first_shm{};
};

/// A communicator as a process began, used and ended it.
struct CommUse {
  std::string id;       ///< commId
  std::string address;  ///< "0x6832959c4331"
  bool ended = false;
  Evidence start{};
};

/// A collective as a line of the subsystem COLL says it.
struct Call {
  std::array<char, 16> name{};  ///< "AllReduce", filled up with zeros
  std::uint64_t count = 0;
  std::int32_t datatype = 0;  ///< ncclDataType_t, ncclRedOp_t
  std::int32_t op = 0;
  std::int64_t root = 0;
  bool operator==(const Call&) const = default;
};

/// How far a process is in a communicator.
struct RankCalls {
  std::size_t process = 0;  ///< in Job::processes
  std::string address{};    ///< of the communicator in that process
  std::string comm{};  ///< commId, or that of the communicator that was split with the part; empty: not known
  std::int64_t ranks = 0;
  std::size_t order = 0;   ///< among the process's communicators of as many ranks
  std::uint64_t last = 0;  ///< the highest opCount
  Call call{};             ///< the last one
  Evidence evidence{};
};

/// Ranks of a communicator that called different collectives under one opCount: the lowest one.
struct CallDifference {
  struct Side {
    Call call{};
    int ranks = 0;
    std::size_t process = 0;  ///< one of them
    Evidence evidence{};
  };
  std::string comm{};
  std::int64_t ranks = 0;
  std::size_t order = 0;
  std::uint64_t op_count = 0;
  std::vector<Side> sides{};
};

/// One process of one host. Lines without host and process number belong to a process whose host is empty.
struct Process {
  std::string host{};
  std::int64_t pid = 0;
  Evidence first{};
  Fact version{};    ///< "2.27.5+cuda12.9"
  Fact driver{};     ///< "13010"
  Fact bootstrap{};  ///< "eth0:10.0.0.1<0>"
  Fact network{};    ///< "IB", "Socket", "AWS Libfabric"
  Fact sockets{};    ///< "[0]eth0:10.0.0.1<0> [1]docker0:..."
  Fact nics{};       ///< "[0]mlx5_0:1/RoCE [1]..."
  std::int64_t rank = -1;
  std::int64_t ranks = 0;
  std::int64_t nodes = 0;
  std::int64_t cuda_device = -1;
  Fact bus{};  ///< bus number of the GPU
  int inits_started = 0;
  int inits_done = 0;
  int direct_on = 0;  ///< NICs for which GPUDirect RDMA is said to be enabled
  int direct_off = 0;
  Evidence first_direct_off{};
  int near_pairs = 0;  ///< pairs of GPU and NIC that are near enough for it, and those that are not
  int far_pairs = 0;
  Evidence first_far_pair{};
  Connections connections{};
  /// Channels of the widest communicator from one rank (upper half of the key) to another, as this end says. Empty if ranks are not told apart.
  std::unordered_map<std::uint64_t, Channels> links{};
  std::int64_t own_end = -1;  ///< the rank that its own lines of channels begin or end with
  bool on_widest = true;  ///< while its log is read: the channels that follow are of the widest communicator
  std::map<std::string, Fact> settings{};       ///< NCCL_* that the environment or a file sets
  std::vector<CommUse> comms{};                 ///< the newest
  std::map<std::string_view, Stated> stated{};  ///< by the id of the format
  int comm_changes = 0;                         ///< how often one began or ended
  std::set<std::string> ended_ids{};            ///< of communicators that this process has destroyed
};

/// What PyTorch's watchdog or heartbeat monitor says when it ends a rank.
struct TorchStop {
  std::int64_t rank = -1;
  std::string group{};          ///< "0(default_pg)"; empty: the line does not say
  std::int64_t sequence = -1;   ///< SeqNum of the collective that did not end
  std::string operation{};      ///< "ALLREDUCE"
  std::string elements{};       ///< "NumelIn=1, NumelOut=1"
  std::int64_t enqueued = -1;   ///< the last of its collectives
  std::int64_t completed = -1;  ///< the last that ended
  std::int64_t waits_for = -1;  ///< a rank whose id for the communicator did not come
  bool heartbeat = false;       ///< its watchdog stood still
  Evidence evidence{};
};

/// What a launcher says of a rank that ended.
struct RankEnd {
  std::string who{};  ///< "rank 2 (pid 7 on node1)"
  std::string launcher{};
  int signal = 0;
  int status = 0;
  std::string lost{};  ///< of a host with its ranks: why
  Evidence evidence{};
};

/// Two ends of a connection over RDMA that failed.
struct GidPair {
  std::string local;
  std::string remote;
  Evidence evidence;
};

/// How often a rule's line stood in the logs, the first of them, and the hosts that printed it (at most 64).
struct Occurrences {
  int count = 0;
  std::vector<Evidence> evidence{};
  std::set<std::string> hosts{};
};

/// Lines of one row of the catalogue.
struct Warned {
  Occurrences lines{};
  /// The rows of line_rules() that each of the lines matched, each set of them once; an empty one: none.
  std::vector<std::vector<std::uint16_t>> rules{};
};

struct Job {
  // Written out in job.cpp: each source that copies a job would make code for all that is in it.
  Job();
  Job(const Job&);
  Job(Job&&) noexcept;
  Job& operator=(const Job&);
  Job& operator=(Job&&) noexcept;
  ~Job();

  std::vector<Process> processes{};
  std::vector<Fact> versions{};  ///< each version of NCCL once, by the line that printed it first
  std::map<std::string, std::vector<Fact>>
      packages{};                           ///< name of an installed package: each version of it once
  std::vector<topology::Graph> patterns{};  ///< of lines "Pattern 4, ...", each once; without their channels
  std::vector<GidPair> gids{};
  std::vector<Fact>
      first_ranks{};  ///< nccl-tests: the process that calls itself rank 0, once for each process number
  std::vector<Fact> reused_ids{};   ///< commIds that began again after their communicator had ended
  std::vector<Fact> unexplained{};  ///< the first WARN lines that neither a rule nor the catalogue knows
  std::map<std::uint16_t, Warned>
      warnings{};  ///< lines with WARN, and last errors, by their row of the catalogue; no_row: a rule alone knows them
  Occurrences
      failures{};  ///< lines that no job prints that is well: tracebacks, errors of CUDA and PyTorch, signals
  Occurrences
      failed_returns{};  ///< where NCCL left its functions with an error; it may have gone on in another way
  std::vector<RankEnd> ends{};  ///< what launchers say of ranks that ended, in the order of the lines
  std::vector<TorchStop> torch_stops{};  ///< what PyTorch's watchdog says, for each rank and group
  std::vector<Occurrences> matches{};    ///< for each row of line_rules()
  /// Lines that stand in logs of jobs that are well, too: they only add to other evidence. By their phrase, the first of each.
  std::map<std::string, Evidence> asides{};
  std::map<std::string, Evidence> others{};  ///< libraries other than NCCL, with the first line of each
  std::vector<bandwidth::Table> tables{};    ///< of nccl-tests, as they stand in the logs
  bandwidth::Links links{};
  bandwidth::TuningTable tuning{};
  documents::Facts documents{};    ///< of files that are read whole: topologies, graphs
  topology::ToolFacts tools{};     ///< what nvidia-smi, ibv_devinfo, ulimit and lspci printed into the logs
  std::vector<RankCalls> calls{};  ///< of each process and communicator
  std::vector<CallDifference> call_differences{};  ///< the first of each communicator
  int later_ranks = 0;                             ///< nccl-tests: lines of ranks above 0
  std::int64_t lines = 0;
  std::int64_t nccl_lines = 0;   ///< with INFO, WARN, CALL or TRACE
  std::int64_t known_lines = 0;  ///< that stated a fact or matched a rule

  /// Hosts that NCCL lines name, sorted.
  std::set<std::string> hosts() const;
  /// Whether the ranks are known to be on more than one node.
  bool several_nodes() const;
  /// Whether the job runs on one node, as far as its logs say.
  bool on_one_node() const;
  /// The first process that printed a line of this format; none: null.
  const Stated* stated(std::string_view format) const;
  /// The first process that sets `name`, with its value; none: null.
  const Fact* setting(const std::string& name) const;
  bool matched(std::string_view cause) const;
  /// Whether a setting that is not in the logs is not set: a process printed what NCCL_DEBUG=INFO prints.
  bool says_settings() const;
  /// Whether lines say that the RDMA ports are Ethernet (RoCE), or InfiniBand.
  const Evidence* roce() const;
  const Evidence* infiniband() const;
};

}  // namespace weft::report::nccl
