#include "collectives/kernels/slices.hpp"

#include <unistd.h>

#include <algorithm>

#include "weft/core/buffer.hpp"

namespace weft::detail {
namespace {

std::size_t last_level_cache() {
  static const auto bytes = static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  return bytes;
}

// Where the last-level cache holds whole models, streaming costs more than it saves at any size
// (bench/results).
std::size_t streamed_bytes() {
  constexpr std::size_t holds_models = std::size_t{64} << 20;
  return last_level_cache() < holds_models ? std::size_t{1} << 20 : last_level_cache();
}

}  // namespace

Slice slice_of(std::int64_t count, int rank, int ranks, DataType dtype) {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(dtype));
  const std::int64_t length = (count + ranks * line - 1) / (ranks * line) * line;
  const std::int64_t begin = std::min(count, length * rank);
  return {begin, std::min(length, count - begin)};
}

bool streams_to_peers(std::size_t bytes) {
  return bytes >= streamed_bytes();
}

bool streams_home(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{16} << 20;  // also where the system does not name its caches
  return bytes >= std::max(least, last_level_cache() / 2);
}

}  // namespace weft::detail
