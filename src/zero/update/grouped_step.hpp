#pragma once
// A step of a range of the flat space whose elements are of several groups: the fused step of each run of a
// group, in ascending order. Bits are those of one fused step for each element with its group's factors.

#include "weft/core/recycled.hpp"
#include "zero/plan/group_runs.hpp"
#include "zero/update/fused_step.hpp"

namespace weft::detail {

/// The factors of one step, made once, and read until its last update is over.
struct GroupedFactors {
  const GroupRuns* runs = nullptr;  ///< lives as long as the optimizer
  RecycledVector<StepFactors> by_group{};
};

/// A range of a slice's arrays. @param moments how many the range has
StepSlice part(const StepSlice& slice, std::int64_t at, std::int64_t count, int moments = 2);

/// One step of all elements, in the order of `stream` and on its device. A group without moments (SGD) does not
/// touch the arrays of moments, which other groups use; a group of rule `none` touches nothing.
/// @param begin where the slice begins in the flat space of trained parameters
/// @throws Error (usage) as fused_step()
void grouped_step(const StepSlice& slice, std::int64_t begin, const GroupedFactors& factors,
                  const Stream& stream);

}  // namespace weft::detail
