#pragma once
// What a PowerSGD state must be before it is taken over.

#include "compression/power_sgd_tensors.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::detail {

/// @throws Error (usage) naming the first parameter that does not fit, and how
void expect_of_this_model(const PowerSgdState& state, const PowerSgdTensors& tensors,
                          const ParamLayout& layout);
/// Collective. @throws Error (mismatch) on all ranks when one has other bases or steps
void expect_equal_bases(const PowerSgdState& state, Communicator& comm);

}  // namespace weft::detail
