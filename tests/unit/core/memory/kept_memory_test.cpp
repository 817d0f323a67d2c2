// Memory of Contents::any in a NodeHeap: kept when it is freed, given again as it was, and never to two at once.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "support/expect_error.hpp"
#include "support/under_tsan.hpp"
#include "weft/core/node_heap.hpp"

namespace weft {
namespace {

constexpr std::size_t huge = std::size_t{2} << 20;

Buffer take(NodeHeap& heap, std::size_t bytes, Contents contents) {
  return heap.allocate(DataType::u8, static_cast<std::int64_t>(bytes), contents);
}

/// What the heap takes of the machine's memory.
std::size_t resident(const NodeHeap& heap) {
  struct stat status {};
  EXPECT_EQ(fstat(heap.fd(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

bool is_all(const Buffer& buffer, std::uint8_t value) {
  const auto bytes = buffer.as<std::uint8_t>();
  return std::ranges::all_of(bytes, [value](std::uint8_t byte) { return byte == value; });
}

TEST(KeptMemory, IsGivenAgainAsItWasAndZeroedMemoryIsNot) {
  const auto heap = NodeHeap::create(16 * huge);
  std::optional<Buffer> first = take(*heap, 100'000, Contents::any);
  std::ranges::fill(first->as<std::uint8_t>(), std::uint8_t{7});
  const auto* const place = first->view().data();
  first.reset();
  EXPECT_EQ(heap->used(), 0U);
  EXPECT_EQ(heap->kept(), huge) << "a whole huge page was taken";
  EXPECT_EQ(resident(*heap) % huge, 0U);
  EXPECT_GT(resident(*heap), 0U);
  const Buffer zeroed = take(*heap, 100'000, Contents::zeroed);
  EXPECT_TRUE(is_all(zeroed, 0));
  const Buffer again = take(*heap, 100'000, Contents::any);
  EXPECT_EQ(again.view().data(), place);
  EXPECT_TRUE(is_all(again, 7)) << "neither punched nor zeroed";
}

TEST(KeptMemory, ServesOtherSizesFromTheSmallestRangeThatFits) {
  const auto heap = NodeHeap::create(16 * huge);
  std::optional<Buffer> small = take(*heap, huge / 4, Contents::any);
  std::optional<Buffer> large = take(*heap, 3 * huge, Contents::any);
  const auto* const place = large->view().bytes();
  large.reset();
  const std::size_t before = resident(*heap);
  EXPECT_EQ(heap->kept(), 3 * huge + huge - huge / 4);
  const Buffer fits = take(*heap, huge / 2, Contents::any);  // in the rest of the small one's page
  const Buffer two = take(*heap, 2 * huge, Contents::any);
  EXPECT_EQ(two.view().bytes(), place);
  EXPECT_EQ(resident(*heap), before);
}

TEST(KeptMemory, GoesBackWhenItIsTrimmed) {
  const auto heap = NodeHeap::create(16 * huge);
  const Buffer stays = take(*heap, 100, Contents::any);
  { const Buffer goes = take(*heap, 3 * huge + 5, Contents::any); }
  const std::size_t kept = heap->kept();
  EXPECT_GE(kept, 3 * huge);
  EXPECT_EQ(heap->trim(), kept);
  EXPECT_EQ(heap->kept(), 0U);
  EXPECT_EQ(heap->trim(), 0U);
  EXPECT_LE(resident(*heap), huge);
  EXPECT_EQ(heap->used(), 128U);
}

TEST(KeptMemory, GoesBackWhenTheHeapHasNoOtherRoomAndIsZeroedThen) {
  for (const Contents contents : {Contents::zeroed, Contents::any}) {
    const auto heap = NodeHeap::create(4 * huge);
    {
      std::vector<Buffer> parts;  // which merge
      for (int i = 0; i < 8; ++i) {
        parts.push_back(take(*heap, huge / 2, Contents::any));
        std::ranges::fill(parts.back().as<std::uint8_t>(), std::uint8_t{7});
      }
    }
    const Buffer zeroed = take(*heap, 3 * huge, Contents::zeroed);
    EXPECT_TRUE(is_all(zeroed, 0));
    const Buffer rest = take(*heap, huge, contents);
    EXPECT_TRUE(is_all(rest, 0));
    test::expect_error(ErrorKind::usage, {"no room for 128 bytes", "WEFT_HEAP_BYTES"},
                       [&] { (void)take(*heap, 1, contents); });
  }
}

// A heap that is smaller than a huge page, or has no whole one left.
TEST(KeptMemory, TakesNoMoreThanThereIs) {
  const auto heap = NodeHeap::create(100'000);
  const std::size_t capacity = heap->capacity();
  const Buffer most = take(*heap, capacity - 4096, Contents::any);
  EXPECT_EQ(heap->kept(), 0U);
  const Buffer rest = take(*heap, 4096, Contents::any);
  EXPECT_EQ(heap->used(), capacity);
}

TEST(KeptMemory, OfAParentIsNothingToAChildThatWasForked) {
  const auto heap = NodeHeap::create(16 * huge);
  std::optional<Buffer> buffer = take(*heap, 10'000, Contents::any);
  { const Buffer kept = take(*heap, 10'000, Contents::any); }
  const std::size_t before = heap->kept();
  const pid_t child = fork();
  if (child == 0) {
    buffer.reset();
    _exit(heap->trim() == 0 && heap->kept() == before ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(heap->kept(), before);
}

/// What threads hold, as a list of ranges: the twin.
class RangeTwin {
 public:
  void add(std::uint64_t begin, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto next = ranges_.lower_bound(begin);
    EXPECT_TRUE(next == ranges_.end() || begin + bytes <= next->first);
    EXPECT_TRUE(next == ranges_.begin() || std::prev(next)->first + std::prev(next)->second <= begin);
    ranges_.emplace(begin, bytes);
    total_ += bytes;
  }
  void remove(std::uint64_t begin) {
    const std::lock_guard lock(mutex_);
    total_ -= ranges_.at(begin);
    ranges_.erase(begin);
  }
  std::size_t total() const { return total_; }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> ranges_;
  std::size_t total_ = 0;
};

TEST(KeptMemory, OfManyThreadsIsItsTwinOfRanges) {
  constexpr std::size_t capacity = 24 * huge;
  const auto heap = NodeHeap::create(capacity);
  RangeTwin held;
  std::atomic<int> full = 0;
  struct Block {
    Buffer buffer;
    std::uint8_t value;
  };
  std::mutex passed_mutex;
  std::vector<Block> passed;  // to be freed by whichever thread comes next
  const auto release = [&](Block block) {
    EXPECT_TRUE(is_all(block.buffer, block.value)) << "another wrote there";
    held.remove(*heap->offset_of(block.buffer.view().data(), 1));
    block.buffer = Buffer();
  };
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Block> mine;
    const int rounds = test::few_under_tsan<int>({150, 700}, 1).back();
    for (int round = 0; round < rounds; ++round) {
      if (random() % 200 == 0) heap->trim();
      if (!mine.empty() && random() % 2 == 0) {
        std::swap(mine[random() % mine.size()], mine.back());
        Block block = std::move(mine.back());
        mine.pop_back();
        if (random() % 2 == 0) {
          const std::lock_guard lock(passed_mutex);
          passed.push_back(std::move(block));
          std::swap(passed[random() % passed.size()], passed.back());
          if (passed.size() < 10) continue;
          block = std::move(passed.back());
          passed.pop_back();
        }
        release(std::move(block));
        continue;
      }
      const bool is_large = random() % 50 == 0;
      const std::size_t bytes = is_large ? huge + random() % (2 * huge) : 1 + random() % 40'000;
      const Contents contents = random() % 3 == 0 ? Contents::zeroed : Contents::any;
      try {
        Buffer buffer = take(*heap, bytes, contents);
        held.add(*heap->offset_of(buffer.view().data(), bytes), bytes);
        EXPECT_TRUE(contents == Contents::any || is_all(buffer, 0));
        const auto value = static_cast<std::uint8_t>(1 + random() % 255);
        std::ranges::fill(buffer.as<std::uint8_t>(), value);
        mine.push_back({std::move(buffer), value});
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), ErrorKind::usage) << error.what();
        ++full;
      }
      if (mine.size() > 100 || (full > 0 && mine.size() > 5)) {
        release(std::move(mine.back()));
        mine.pop_back();
      }
    }
    for (Block& block : mine) release(std::move(block));
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  for (Block& block : passed) release(std::move(block));
  EXPECT_EQ(held.total(), 0U);
  EXPECT_EQ(heap->used(), 0U);
  heap->trim();
  EXPECT_EQ(resident(*heap), 0U) << "also pages of which two buffers had parts";
  EXPECT_TRUE(is_all(take(*heap, capacity, Contents::zeroed), 0)) << "one block again";
}

}  // namespace
}  // namespace weft
