#pragma once
// NaN and infinite values that ranks brought to a step.

#include <cstdint>

#include "weft/gradient/param_layout.hpp"

namespace weft {

/// What one rank brought, before any sum.
struct BadValues {
  int rank = 0;
  std::uint64_t step = 0;  ///< as the reducer counts them
  ParamId first{};         ///< the first parameter, in the order of registration, that has any
  std::int64_t nans = 0;   ///< in all of its gradients
  std::int64_t infinities = 0;
};

}  // namespace weft
