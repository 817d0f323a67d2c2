#pragma once
// How many of so many elements a sparse code keeps.

#include <algorithm>
#include <cmath>
#include <string>

#include "weft/core/error.hpp"

namespace weft::detail {

/// @throws Error (usage) with the value
inline double checked_fraction(const char* codec, double fraction) {
  if (fraction > 0 && fraction <= 1) return fraction;
  throw Error(ErrorKind::usage, text(codec, " of a fraction of ", fraction, " of all elements"),
              "give more than 0 and at most 1");
}

inline std::int64_t kept_of(std::int64_t count, double fraction) {
  return std::min(count, static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(count))));
}

}  // namespace weft::detail
