#include "core/memory/per_process.hpp"

#include <pthread.h>

#include <cerrno>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constinit std::atomic<std::uint64_t> generation{0};
constinit std::atomic<Kept*> last_kept{nullptr};

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

Error Origin::misuse(std::string_view what, const std::string& advice, ErrorContext where,
                     std::string_view owner) const {
  return {ErrorKind::usage,
          text("process ", getpid(), " uses ", what, " of process ", pid_, owner, ", which forked it"),
          advice, std::move(where)};
}

void keep(Kept* one) noexcept {
  one->before = last_kept.load(std::memory_order_relaxed);
  while (!last_kept.compare_exchange_weak(one->before, one, std::memory_order_acq_rel)) {
  }
}

}  // namespace weft::detail
