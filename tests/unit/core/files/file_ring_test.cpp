#include "core/files/file_ring.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/uring.hpp"

namespace weft::detail {
namespace {

using Span = FileRing::Span;
constexpr std::size_t block = ScratchFile::block;

/// A ring of places of two blocks over a file in a folder of its own; skipped where there is no io_uring.
class FileRingOf : public testing::TestWithParam<ScratchFile::Access> {
 protected:
  void SetUp() override {
    if (const auto why = test::why_no_uring()) GTEST_SKIP() << *why;
  }
  FileRing& make(std::size_t blocks, std::size_t places,
                 std::chrono::nanoseconds timeout = std::chrono::minutes(1)) {
    ScratchFile file(folder_.path(), blocks * block, GetParam());
    Buffer memory = Buffer::on_host(DataType::u8, static_cast<std::int64_t>((2 * places + 1) * block));
    return ring_.emplace(std::move(file), std::move(memory), places, timeout);
  }
  std::uint32_t drawn(std::uint32_t below) { return static_cast<std::uint32_t>(random_()) % below; }

  test::TemporaryFolder folder_;
  std::optional<FileRing> ring_;
  std::mt19937 random_{1};
};

INSTANTIATE_TEST_SUITE_P(Access, FileRingOf,
                         testing::Values(ScratchFile::Access::direct, ScratchFile::Access::buffered),
                         [](const auto& one) {
                           return one.param == ScratchFile::Access::direct ? "Direct" : "Buffered";
                         });

// The expected file is kept in memory. Parts are random and may overlap; another thread wants up to twenty
// ahead.
TEST_P(FileRingOf, PassesTheFileThroughMemoryInTheOrderWanted) {
  for (const std::size_t places : {1U, 2U, 4U}) {
    constexpr std::size_t blocks = 12;
    FileRing& ring = make(blocks, places);
    std::vector<std::byte> expected(blocks * block);
    std::vector<Span> spans;
    for (int i = 0; i < 200; ++i) {
      const std::size_t length = 1 + drawn(2);
      spans.push_back({drawn(static_cast<std::uint32_t>(blocks - length + 1)) * block, length * block});
    }
    const auto want_ten = [&](std::size_t from) {
      for (std::size_t i = from; i < std::min(from + 10, spans.size()); ++i) ring.want(spans[i]);
    };
    std::jthread ahead([&] { want_ten(0); });
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (i % 10 == 0) {
        ahead.join();
        ahead = std::jthread([&, i] { want_ten(i + 10); });
        ring.read_ahead();
      }
      const std::span<std::byte> here = ring.take();
      const std::span<std::byte> there = std::span(expected).subspan(spans[i].offset, spans[i].bytes);
      ASSERT_EQ(here.size(), there.size());
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(here.data()) % block, 0U);
      ASSERT_EQ(std::memcmp(here.data(), there.data(), here.size()), 0) << places << " places, part " << i;
      const bool changes = drawn(4) > 0;
      std::ranges::fill(here, std::byte(i));
      if (changes) std::ranges::fill(there, std::byte(i));
      ring.put_back(changes);
    }
    ahead.join();
    ring.settle();
    std::vector<std::byte> whole(expected.size() + block);
    std::byte* aligned = whole.data() + (block - reinterpret_cast<std::uintptr_t>(whole.data()) % block);
    ASSERT_EQ(pread(ring.file().descriptor(), aligned, expected.size(), 0),
              static_cast<ssize_t>(expected.size()));
    EXPECT_EQ(std::memcmp(aligned, expected.data(), expected.size()), 0);
  }
}

TEST_P(FileRingOf, WritesPartsWithoutReadingThem) {
  for (const std::size_t places : {1U, 3U}) {
    constexpr std::size_t blocks = 6;
    FileRing& ring = make(blocks, places);
    std::vector<std::byte> expected(blocks * block);
    for (int i = 0; i < 100; ++i) {
      const std::size_t length = 1 + drawn(2);
      const Span span{drawn(static_cast<std::uint32_t>(blocks - length + 1)) * block, length * block};
      if (drawn(3) > 0) {
        std::ranges::fill(ring.take_unread(span), std::byte(i));
        ring.put_back(true);
        std::ranges::fill(std::span(expected).subspan(span.offset, span.bytes), std::byte(i));
        continue;
      }
      ring.want(span);
      const std::span<std::byte> here = ring.take();
      ASSERT_EQ(std::memcmp(here.data(), expected.data() + span.offset, span.bytes), 0)
          << places << " places, part " << i;
      ring.put_back(false);
    }
  }
}

TEST_P(FileRingOf, RefusesWhatIsNoPartAndWhatIsOutOfOrder) {
  FileRing& ring = make(4, 2);
  for (const Span& span :
       {Span{0, 0}, Span{0, 100}, Span{5, block}, Span{0, 3 * block}, Span{4 * block, block},
        Span{3 * block, 2 * block}, Span{std::uint64_t{1} << 63U, block}})
    test::expect_error(ErrorKind::usage,
                       {"of a file of 16384 are wanted, in places of 8192", "whole blocks of 4096"},
                       [&] { ring.want(span); });
  test::expect_error(ErrorKind::usage, {"was not wanted"}, [&] { ring.take(); });
  test::expect_error(ErrorKind::usage, {"before one is taken"}, [&] { ring.put_back(true); });
  ring.want({0, block});
  ring.take();
  test::expect_error(ErrorKind::usage, {"before the last one is put back"}, [&] { ring.take(); });
  test::expect_error(ErrorKind::usage, {"taken unread while others"}, [&] {
    ring.take_unread({block, block});
  });
  ring.put_back(false);
  test::expect_error(ErrorKind::usage, {"whole blocks of 4096"}, [&] {
    ring.take_unread({4 * block, block});
  });
}

TEST_P(FileRingOf, SaysWhereTheFileEnds) {
  FileRing& ring = make(4, 1);
  ASSERT_EQ(ftruncate(ring.file().descriptor(), 3 * block), 0);
  ring.want({2 * block, 2 * block});
  test::expect_error(ErrorKind::system,
                     {"cannot read 4096 bytes at 12288 of " + folder_.path(), "the file ends there",
                      "parameters that were saved"},
                     [&] { ring.take(); });
}

TEST_P(FileRingOf, SaysWhatCannotBeWritten) {
  FileRing& ring = make(4, 2);
  const int full = open("/dev/full", O_RDWR | O_CLOEXEC);
  ASSERT_EQ(dup2(full, ring.file().descriptor()), ring.file().descriptor());
  close(full);
  ring.want({block, 2 * block});
  ring.take();
  test::expect_error(ErrorKind::system,
                     {"cannot write 8192 bytes at 4096 of " + folder_.path(), "No space left on device"},
                     [&] {
                       ring.put_back(true);  // sees it where it is over at once
                       ring.settle();
                     });
}

TEST_P(FileRingOf, DoesNotWaitForADiskForEver) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
  FileRing& ring = make(4, 2, std::chrono::milliseconds(20));
  ASSERT_GE(dup2(pipe[0], ring.file().descriptor()), 0);
  close(pipe[0]);
  ring.want({block, block});
  test::expect_error(ErrorKind::timeout, {"cannot read 4096 bytes at 4096 of ", "within 0.02 s"},
                     [&] { ring.take(); });
  close(pipe[1]);  // and the read ends
}

}  // namespace
}  // namespace weft::detail
