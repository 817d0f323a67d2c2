#include "core/base/spin_lock.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace weft::detail {
namespace {

TEST(SpinLock, OneThreadHasItAtATime) {
  constexpr int threads = 4;
  constexpr int rounds = 5000;
  SpinLock lock;
  int count = 0;  // not atomic: the lock orders its changes
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        const std::lock_guard guard(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(count, threads * rounds);
}

TEST(SpinLock, TryingTakesItOnlyWhenItIsFree) {
  SpinLock lock;
  std::unique_lock first(lock, std::try_to_lock);
  EXPECT_TRUE(first.owns_lock());
  EXPECT_FALSE(std::unique_lock(lock, std::try_to_lock).owns_lock());
  first.unlock();
  EXPECT_TRUE(std::unique_lock(lock, std::try_to_lock).owns_lock());
}

}  // namespace
}  // namespace weft::detail
