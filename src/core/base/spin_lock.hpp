#pragma once
// A lock for a few lines of code that threads seldom want at the same time. Taking it when it is free costs
// one atomic exchange. A thread that finds it taken spins, then yields, then sleeps (Backoff).
//
// RULE: hold it for a few memory accesses only, never across a wait or a system call.

#include <atomic>

#include "weft/core/backoff.hpp"

namespace weft::detail {

/// Works with std::lock_guard and std::unique_lock.
class SpinLock {
 public:
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void lock() {
    for (Backoff backoff; !try_lock();) backoff.pause();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace weft::detail
