#pragma once
// One clock for all ranks, to compare times that were taken on different ranks.
//
// The ranks of a node read the same steady clock. The clocks of two nodes have no common beginning, so the
// offset between them is measured as NTP does it (D. Mills, RFC 5905, section 8). One rank of each node asks
// rank 0 several times, and takes the answer that came soonest; that one is half a round trip old. The error is at
// most half of that round trip, plus the drift since.
//
//   const auto offset = clock_offset(comm);
//   const auto of_rank_0 = std::chrono::steady_clock::now() + offset;

#include <chrono>
#include <string>

#include "weft/collectives/communicator.hpp"

namespace weft {

/// To be added to this rank's steady clock to read that of rank 0. Collective; blocks.
std::chrono::nanoseconds clock_offset(Communicator comm);

/// All ranks' traces on rank 0's clock, each rank a process of the viewer; what rank 0 attached stands beside them.
/// Collective; empty on the other ranks.
std::string merged_trace(const Trace& trace, const Communicator& comm);
/// The same in a file, which is whole or as it was before. Collective; rank 0 writes. @throws Error (usage) on rank 0 when the file cannot
/// be opened, (system) when it cannot be written
void write_trace(const Trace& trace, const Communicator& comm, const std::string& path);

}  // namespace weft
