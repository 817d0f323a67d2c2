#include "weft/core/recycled.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "weft/core/stream.hpp"

namespace weft {
namespace {

#if WEFT_ADDRESSES_ARE_WATCHED
constexpr bool recycles = false;  // Recycled uses the heap
#else
constexpr bool recycles = true;
#endif

TEST(Recycled, GivesOutAlignedBlocksThatDoNotOverlap) {
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 1000, 1024, 1025, 2048, 2049, 1 << 20, (1 << 20) + 1}) {
    std::set<std::byte*> blocks;
    for (int i = 0; i < 100; ++i) {
      auto* const block = static_cast<std::byte*>(Recycled::take(bytes));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % Recycled::alignment, 0U);
      std::memset(block, i, bytes);
      const auto next = blocks.insert(block).first;
      EXPECT_TRUE(next == blocks.begin() || *next >= *std::prev(next) + bytes);
      EXPECT_TRUE(std::next(next) == blocks.end() || *next + bytes <= *std::next(next));
    }
    for (std::byte* const block : blocks) Recycled::give_back(block, bytes);
  }
}

TEST(Recycled, WhatIsGivenBackIsTakenAgain) {
  if (!recycles) GTEST_SKIP() << "the address sanitizer sees to it that it is not";
  void* const first = Recycled::take(200);
  Recycled::give_back(first, 200);
  EXPECT_EQ(Recycled::take(256), first);  // of the same size, rounded up
  Recycled::give_back(first, 256);
}

TEST(Recycled, NothingGivenBackIsNothing) {
  Recycled::give_back(nullptr, 8);
}

// Threads give back blocks that others took, and end with free blocks in their lists.
TEST(Recycled, BlocksGoFromThreadToThread) {
  constexpr std::size_t places = 64;
  struct Held {
    std::size_t bytes;
    std::uint64_t marks;
  };
  std::array<std::atomic<Held*>, places> held{};
  const auto exchange = [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 2000; ++i) {
      const std::size_t bytes = sizeof(Held) + random() % 1500;
      auto* const mine = new (Recycled::take(bytes)) Held{bytes, bytes * 3};
      Held* const theirs = held[random() % places].exchange(mine, std::memory_order_acq_rel);
      if (theirs == nullptr) continue;
      EXPECT_EQ(theirs->marks, theirs->bytes * 3);
      Recycled::give_back(theirs, theirs->bytes);
    }
  };
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(exchange, round * 4 + i);
    for (std::thread& thread : threads) thread.join();
  }
  for (auto& one : held) {
    if (Held* const left = one.load()) Recycled::give_back(left, left->bytes);
  }
}

TEST(Recycled, ATaskOfAnySizeRunsAndGoes) {
  class alignas(128) Wide final : public Task {
   public:
    bool advance() override {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this) % alignof(Wide), 0U);
      return true;
    }
  };
  Stream stream;
  std::size_t sum = 0;
  stream.submit(std::make_unique<Wide>());
  stream.run([&sum] { ++sum; });
  stream.run([&sum, large = std::array<char, 3000>{}] { sum += large.size(); });
  auto owned = std::make_unique<int>(5);  // what cannot be copied is a task, too
  stream.run([&sum, owned = std::move(owned)] { sum += static_cast<std::size_t>(*owned); });
  EXPECT_EQ(sum, 3006U);
}

}  // namespace
}  // namespace weft
