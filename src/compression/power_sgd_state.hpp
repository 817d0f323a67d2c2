#pragma once
// What a PowerSGD state must be before it is taken over.

#include <optional>

#include "compression/power_sgd_tensors.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::detail {

/// @throws Error (usage) naming the first parameter that does not fit, and how
void expect_of_this_model(const PowerSgdState& state, const PowerSgdTensors& tensors,
                          const ParamLayout& layout);
/// Collective. @throws Error on all ranks: `refusal` where there is one, (mismatch) when another rank has one
/// or other bases or steps
void expect_taken_by_all(const PowerSgdState& state, const std::optional<Error>& refusal, Communicator& comm);

}  // namespace weft::detail
