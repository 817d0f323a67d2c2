#pragma once
// The transport of the ranks' data: for NCCL from its own log, for host backends from their kind.
//
// NCCL names the transport only in its log, when it connects the ranks. The log is therefore requested before
// NCCL starts, in a temporary file, and read at the end. If the user has set NCCL_DEBUG, that log is left
// alone and no transport is named.
//
//   NcclLog log(world, environment);               // before connect()
//   ... train ...
//   std::vector<Connection> all = connections(comm, log);

#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "weft/collectives/communicator.hpp"

namespace weft::scaling {

/// A connection from one rank to another. All channels of NCCL between them are one connection.
struct Connection {
  int from = 0;
  int to = 0;
  std::string via;   ///< "NET/IB/0", "NET/Socket/0", "P2P/CUMEM", "SHM/direct", "shared memory", "MPI", "UCX"
  bool gdr = false;  ///< GPUDirect RDMA: the network card accesses device memory itself
  bool nvlink = false;  ///< P2P, where NCCL found NVLink between all devices of the node
  int channels = 1;

  friend bool operator==(const Connection&, const Connection&) = default;
};

/// The connections on which a rank sends, from its NCCL log (the lines come from NCCL's src/transport and
/// src/graph/search.cc).
std::vector<Connection> read_nccl_log(std::istream& log);

enum class Requirement { none, shm, nvlink, ib, gdr };

/// @throws Error (usage) for an unknown word
Requirement requirement_named(const std::string& word);

/// Why the requirement is not met, naming a connection; empty if it is met.
std::string shortfall(Requirement requirement, const std::vector<Connection>& connections);

class NcclLog {
 public:
  /// Asks NCCL for its log, if ranks compute on devices. @throws Error (usage) when something is required of
  /// the transport and NCCL_DEBUG is set
  NcclLog(const World& world, const Environment& environment, Requirement requirement);
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  std::vector<Connection> read() const;

 private:
  std::string path_;  // empty: none
};

/// The connections of all ranks; the same on every rank. Collective.
std::vector<Connection> connections(Communicator comm, const NcclLog& log);

/// "0 -> 1, 1 -> 0: shared memory", a line for each kind.
std::string to_text(const std::vector<Connection>& connections);

}  // namespace weft::scaling
