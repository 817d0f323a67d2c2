#include "core/memory/per_process.hpp"

#include <pthread.h>

#include <cerrno>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constinit std::atomic<std::uint64_t> generation{0};

bool count_forks() {
  const int failed =
      pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  if (failed == 0) return true;
  errno = failed;
  throw system_error("cannot ask to be told of fork()");
}

}  // namespace

std::uint64_t process_generation() {
  static const bool counts = count_forks();
  (void)counts;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace weft::detail
