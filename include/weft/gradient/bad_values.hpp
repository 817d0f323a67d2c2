#pragma once
// NaN and infinite values in the gradients of a step, as GradientReducer::bad_values() reports them.

#include <cstdint>

#include "weft/gradient/param_layout.hpp"

namespace weft {

/// The bad values in the gradients of one rank, counted before any sum over ranks.
struct BadValues {
  int rank = 0;
  std::uint64_t step = 0;  ///< the reducer's number of the step
  ParamId first{};         ///< the first parameter that has any, in the order of registration
  std::int64_t nans = 0;   ///< in all gradients of the rank
  std::int64_t infinities = 0;
};

}  // namespace weft
