#pragma once
// How much memory this process may still use before the system kills somebody for it.

#include <cstddef>
#include <optional>
#include <string>

namespace weft::detail {

/// The least of what the machine has available and what the limits of this process's control groups (v1 and
/// v2, a container's among them) leave; caches that the kernel would give up count as left. Null when the
/// system says nothing. @param root before /proc and /sys, for tests
std::optional<std::size_t> memory_left(const std::string& root = "");

}  // namespace weft::detail
