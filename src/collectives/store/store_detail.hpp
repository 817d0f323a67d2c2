#pragma once
// What the three stores and the two rendezvous have in common.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/memory/per_process.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

inline constexpr std::int64_t most_ranks = 1 << 24;
inline constexpr std::size_t longest_key = 4096;
inline constexpr std::size_t longest_value = std::size_t{16} << 20U;

inline void check_entry(const std::string& key, std::size_t value_bytes) {
  if (key.empty() || key.size() > longest_key || value_bytes > longest_value) {
    throw Error(ErrorKind::usage,
                text("a key of ", key.size(), " bytes with a value of ", value_bytes, " bytes"),
                text("keys have 1 to ", longest_key, " bytes, values at most ", longest_value));
  }
}

/// A store belongs to the process that opened it: a child that was forked since shares its connections and locks.
inline void expect_here(const Origin& origin, int rank) {
  if (origin.is_here()) return;
  throw origin.misuse("the store", "use it in the parent, or open one in the child at a place of its own",
                      {rank, {}, 0});
}

/// Of "tcp://HOST:PORT", where `scheme` is "tcp://": the host without the brackets of an IPv6 address, and the port.
std::optional<std::pair<std::string, int>> host_and_port(std::string_view address, std::string_view scheme);

/// How long a wait was allowed to last: "2.0 s".
inline std::string seconds_text(Deadline deadline) {
  char words[32];
  std::snprintf(words, sizeof(words), "%.1f s", deadline.allowed_seconds());
  return words;
}

/// One step of a longer wait.
inline Deadline at_most(std::chrono::nanoseconds step, Deadline deadline) {
  return Deadline::in(std::min(step, deadline.left()));
}

/// Beyond the deadline of the ranks waited for, so that they speak first.
inline Deadline later(Deadline deadline, std::chrono::nanoseconds grace) {
  constexpr std::chrono::nanoseconds century = std::chrono::hours(24 * 365 * 100);
  return Deadline::in(std::min(deadline.left(), century) + grace);
}

}  // namespace weft::detail
