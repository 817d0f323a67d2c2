#include "weft/core/node_heap.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string_view>

#include "support/expect_error.hpp"

namespace weft {
namespace {

constexpr std::size_t capacity = 1 << 20;

TEST(NodeHeap, BlocksAreZeroedAlignedAndFoundByOffset) {
  const auto heap = NodeHeap::create(capacity);
  Buffer first = heap->allocate(DataType::f32, 100);
  Buffer second = heap->allocate(DataType::f32, 100);
  EXPECT_EQ(heap->offset_of(first.view().data(), first.size_bytes()), 0U);
  EXPECT_EQ(heap->offset_of(second.view().data(), second.size_bytes()), 512U);
  EXPECT_FALSE(heap->offset_of(&capacity, 4).has_value());
  EXPECT_FALSE(heap->offset_of(first.view().bytes(), capacity + 1).has_value());
}

TEST(NodeHeap, FreedMemoryIsZeroAgainAndMergesWithItsNeighbours) {
  const auto heap = NodeHeap::create(capacity);
  std::mt19937 random(7);
  std::vector<Buffer> live;
  for (int round = 0; round < 2000; ++round) {
    if (live.size() > 20 || (!live.empty() && random() % 2 == 0)) {
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(random() % live.size()));
      continue;
    }
    Buffer buffer = heap->allocate(DataType::u8, static_cast<std::int64_t>(1 + random() % 20000));
    for (std::uint8_t& byte : buffer.as<std::uint8_t>()) {
      ASSERT_EQ(byte, 0);
      byte = 0xab;
    }
    live.push_back(std::move(buffer));
  }
  live.clear();
  EXPECT_EQ(heap->used(), 0U);
  EXPECT_EQ(heap->allocate(DataType::u8, capacity).count(), static_cast<std::int64_t>(capacity))
      << "one block again";
}

TEST(NodeHeap, LargeBuffersStartWhereAHugePageCanInEveryMapping) {
  constexpr std::size_t huge = std::size_t{2} << 20;
  const auto heap = NodeHeap::create(16 * huge);
  const SharedMapping peer = MemoryFile::of_process(getpid(), heap->fd(), heap->capacity()).map();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(peer.base()) % huge, 0U);
  const Buffer small = heap->allocate(DataType::u8, 100);
  for (int round = 0; round < 2; ++round) {  // the second time in memory that was in use
    Buffer large = heap->allocate(DataType::u8, 3 * huge + 12345);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.view().data()) % huge, 0U);
    const auto bytes = large.as<std::uint8_t>();
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; }));
    std::ranges::fill(bytes, std::uint8_t{7});
    EXPECT_EQ(*peer.at(*heap->offset_of(&bytes[bytes.size() - 1], 1)), std::byte{7});
  }
  EXPECT_EQ(heap->used(), 128U);
  const Buffer next = heap->allocate(DataType::u8, 100);  // what lies before a large one is not lost
  EXPECT_EQ(heap->offset_of(next.view().data(), 100), 128U);
}

TEST(NodeHeap, AFullHeapSaysHowMuchItHasAndWhichVariableRaisesIt) {
  const auto heap = NodeHeap::create(capacity);
  const Buffer most = heap->allocate(DataType::u8, capacity - 4096);
  test::expect_error(ErrorKind::usage, {"8192", "1044480 of 1048576", "WEFT_HEAP_BYTES"},
                     [&] { (void)heap->allocate(DataType::u8, 8192); });
}

TEST(NodeHeap, AnotherProcessReachesItAtTheSameOffset) {
  const auto heap = NodeHeap::create(capacity);
  Buffer buffer = heap->allocate(DataType::i32, 4);
  const int parent = getpid();
  const int fd = heap->fd();
  const pid_t child = fork();
  if (child == 0) {
    const MemoryFile file = MemoryFile::of_process(parent, fd, capacity);
    const SharedMapping mapping = file.map();
    reinterpret_cast<std::int32_t*>(mapping.at(0))[3] = 99;
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(buffer.as<std::int32_t>()[3], 99);
}

TEST(NodeHeap, OfAProcessIsOneForEachCapacityUntilTheLastHasGone) {
  auto one = NodeHeap::of_process(capacity);
  EXPECT_EQ(NodeHeap::of_process(capacity - 1), one) << "whole pages";
  EXPECT_NE(NodeHeap::of_process(2 * capacity), one);
  EXPECT_NE(NodeHeap::create(capacity), one);
  Buffer buffer = one->allocate(DataType::u8, 10);
  one.reset();
  one = NodeHeap::of_process(capacity);  // the buffer has kept it
  EXPECT_TRUE(one->offset_of(buffer.view().data(), 10).has_value());
  buffer = Buffer();
  const std::weak_ptr<NodeHeap> gone = one;
  one.reset();
  EXPECT_TRUE(gone.expired());
}

// The child of a data loader frees what it inherited, as its parent reads it.
TEST(NodeHeap, AChildThatWasForkedNeitherFreesNorTakesWhatItsParentHas) {
  const auto heap = NodeHeap::of_process(capacity);
  std::optional<Buffer> buffer = heap->allocate(DataType::u8, 10'000);
  std::ranges::fill(buffer->as<std::uint8_t>(), std::uint8_t{7});
  const pid_t child = fork();
  if (child == 0) {
    if (heap->is_of_this_process() || buffer->as<std::uint8_t>()[9'999] != 7) _exit(1);
    buffer.reset();
    try {
      (void)heap->allocate(DataType::u8, 10);
      _exit(2);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage ||
          std::string_view(error.what()).find("which forked it") == std::string_view::npos)
        _exit(3);
    }
    auto own = NodeHeap::of_process(capacity);
    if (own == heap || !own->is_of_this_process()) _exit(4);
    Buffer mine = own->allocate(DataType::u8, 10'000);
    std::ranges::fill(mine.as<std::uint8_t>(), std::uint8_t{9});
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(heap->is_of_this_process());
  const auto bytes = buffer->as<std::uint8_t>();
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 7; }));
}

TEST(NodeHeap, AVanishedProcessIsNamed) {
  test::expect_error(ErrorKind::system, {"process 999999999", "one user"},
                     [] { (void)MemoryFile::of_process(999999999, 3, capacity); });
}

TEST(NodeHeap, ABufferKeepsItsHeapAlive) {
  Buffer buffer = NodeHeap::create(capacity)->allocate(DataType::u8, 10);
  buffer.as<std::uint8_t>()[9] = 1;
  EXPECT_EQ(buffer.as<std::uint8_t>()[9], 1);
}

}  // namespace
}  // namespace weft
