#pragma once
// The optimizer's step in f64 throughout, on the host: what other types' steps are compared with, and what a
// training in f64 takes. Plain loops with true roots and quotients.

#include "zero/fused_step.hpp"

namespace weft::detail {

/// All arrays are f64 on the host. @throws Error (usage) else
void wide_step(const StepSlice& slice, const StepFactors& factors);

}  // namespace weft::detail
