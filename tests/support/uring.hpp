#pragma once
// Whether files can be tested here: a container may forbid io_uring.

#include <optional>
#include <string>

#include "core/files/uring.hpp"
#include "weft/core/error.hpp"

namespace weft::test {

/// None: they can.
inline std::optional<std::string> why_no_uring() {
  try {
    const detail::Uring ring(1);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace weft::test
