#pragma once
// Over what the ranks' data travels: of NCCL by its own log, of the host's backends by what they are.
//
// NCCL says it once, when it connects the ranks, and in its log alone. So the log is asked for before NCCL
// starts, into a file of our own, and read when all is done. A user who has set NCCL_DEBUG keeps that log,
// and no transport is named.
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

/// From one rank to another; what NCCL spreads over channels is one connection.
struct Connection {
  int from = 0;
  int to = 0;
  std::string via;      ///< "NET/IB/0", "NET/Socket/0", "P2P/CUMEM", "SHM/direct", "shared memory", "MPI"
  bool gdr = false;     ///< the network card reads and writes the device's memory itself
  bool nvlink = false;  ///< P2P, where NCCL found NVLink between all devices of the node
  int channels = 1;

  friend bool operator==(const Connection&, const Connection&) = default;
};

/// What a rank sends to others, from its NCCL log (source of the lines: NCCL src/transport,
/// src/graph/search.cc).
std::vector<Connection> read_nccl_log(std::istream& log);

enum class Requirement { none, shm, nvlink, ib, gdr };

/// @throws Error (usage) for another word
Requirement requirement_named(const std::string& word);

/// Why the requirement does not hold, naming a connection; empty when it does.
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

/// Of all ranks, the same on every one. Collective.
std::vector<Connection> connections(Communicator comm, const NcclLog& log);

/// "0 -> 1, 1 -> 0: shared memory", a line for each kind.
std::string to_text(const std::vector<Connection>& connections);

}  // namespace weft::scaling
