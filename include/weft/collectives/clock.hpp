#pragma once
// One clock for all ranks, for figures that compare when they did what.
//
// A node's ranks read the same steady clock; between nodes it is off by anything, for each counts from its
// own start. The offset is taken the way NTP takes it: of several questions to rank 0 the one that was
// answered soonest, whose answer is half a round trip old (D. Mills, RFC 5905, section 8). What is left of
// the error is at most half of that round trip, and drift since.
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
