#pragma once
// The lines that say how a communicator begins, what it is, and how it ends. Rows of statements() name these functions.

#include "weft-report/nccl/statements.hpp"

namespace weft::report::nccl {

/// "comm 0x1 rank 8 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"
bool take_shape(const Said& said, Process& process, Job& job);
/// "ncclCommInitRank comm 0x1 rank 8 nranks 16 cudaDev 0 busId 18000 commId 0x5 - Init START"
bool take_init_start(const Said& said, Process& process, Job& job);
/// The same with "Init COMPLETE".
bool take_init_done(const Said& said, Process& process, Job& job);
/// "comm 0x1 rank 8 nranks 16 cudaDev 0 busId 18000 - Destroy COMPLETE"
bool take_destroyed(const Said& said, Process& process, Job& job);

}  // namespace weft::report::nccl
