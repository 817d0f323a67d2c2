#pragma once
// A copy that is done when the call returns, between any two memories of the host and of one device.

#include <cstring>

#include "weft/core/copy.hpp"

namespace weft::detail {

inline void copy_now(View to, ConstView from) {
  if (to.device().is_host() && from.device().is_host()) {
    std::memcpy(to.data(), from.data(), from.size_bytes());
    return;
  }
  Stream stream(to.device().is_host() ? from.device() : to.device());
  copy(to, from, stream);
  stream.synchronize();
}

}  // namespace weft::detail
