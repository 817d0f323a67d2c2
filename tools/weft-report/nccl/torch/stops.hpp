#pragma once
// The lines of PyTorch's watchdog, as facts of a rank and group. Versions 1.10 to 2.12 of PyTorch.

#include <string_view>

#include "weft-report/nccl/statements.hpp"

namespace weft::report::nccl {

/// "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=..."
bool take_timeout(const Said& said, Process& process, Job& job);
/// "... at work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807."
bool take_progress(const Said& said, Process& process, Job& job);
/// "[PG 0 Rank 1] Heartbeat monitor timed out! ...", "ProcessGroupNCCL's watchdog got stuck for 600 seconds ..."
bool take_heartbeat(const Said& said, Process& process, Job& job);
/// "[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but ... error: ..."
bool take_lost_id(const Said& said, Process& process, Job& job);

}  // namespace weft::report::nccl
