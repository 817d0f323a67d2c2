#pragma once
// Prints shapes in messages.

#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/error.hpp"

namespace weft::detail {

/// "384 x 256"
inline std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string result = text(shape.front());
  for (std::size_t i = 1; i < shape.size(); ++i) result += text(" x ", shape[i]);
  return result;
}

}  // namespace weft::detail
