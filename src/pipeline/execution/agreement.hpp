#pragma once
// What the devices of a pipeline must agree on before the first step.

#include <optional>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/stage_executor.hpp"

namespace weft::pipeline::detail {

/// Collective. @param own what is wrong on this device alone, if anything; it is thrown after the others have
/// heard of it. @throws Error (mismatch) naming two devices whose schedules or options differ
void agree_on_schedule(Communicator comm, const Schedule& schedule, const ExecutorOptions& options,
                       const std::optional<Error>& own);

/// Collective: what crosses the boundaries of all stages. [s] is what stage s takes, [s + 1] what it gives.
/// @throws Error (mismatch) naming two neighbours that disagree
std::vector<Boundary> agree_on_boundaries(Communicator comm, const Schedule& schedule,
                                          const std::vector<Stage*>& mine);

}  // namespace weft::pipeline::detail
