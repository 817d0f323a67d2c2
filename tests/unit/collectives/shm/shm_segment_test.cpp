// The doorbell: who sleeps wakes when another rank rings, or when the work it waits for is over.

#include "collectives/shm/shm_segment.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

class TestSegment final : public ShmSegment {
 public:
  TestSegment(int rank, std::shared_ptr<SharedMapping> memory)
      : ShmSegment(rank, 2, std::move(memory), 10s, 2) {}
  Address publish(const void*, std::size_t) const override { return {}; }
  std::byte* resolve(int, Address, std::size_t) const override { return nullptr; }
  Buffer allocate(DataType dtype, std::int64_t count, Contents contents) override {
    return Buffer::on_host(dtype, count, contents);
  }
  std::optional<std::string> died(int rank) const override {
    return has_died ? std::optional(text("rank ", rank, " has died")) : std::nullopt;
  }
  std::atomic<bool> has_died = false;
};

/// Is over when it is told so.
class Waiting final : public PendingOp {
 public:
  std::atomic<bool> has_ended = false;

 private:
  bool advance() override { return has_ended; }
};

class Doorbells : public testing::Test {
 protected:
  Doorbells() { segment.add_pending(work); }
  ~Doorbells() override { segment.remove_pending(work); }
  /// Sleeps in another thread, for far longer than any test may take.
  std::thread sleeper() {
    std::thread thread([this] { segment.rest(work, 100s); });
    while (segment.block(0).doorbell.asleep == 0) std::this_thread::yield();
    return thread;
  }

  std::shared_ptr<SharedMapping> memory =
      std::make_shared<SharedMapping>(MemoryFile("weft-test", ShmSegment::bytes_for(2)).map());
  TestSegment segment{0, memory};
  TestSegment peer{1, memory};
  Waiting work;
};

TEST(ShmSegment, IsOfOneJobAndOneNumberOfRanks) {
  const SharedMapping memory = MemoryFile("weft-test", ShmSegment::bytes_for(3)).map();
  const auto refuses = [&](int size, std::uint64_t job, const char* what) {
    expect_error(ErrorKind::mismatch, {"the shared memory of rank 0 has ", what},
                 [&] { ShmSegment::expect(memory, size, job); });
  };
  refuses(3, 7, "the mark 0");
  ShmSegment::mark(memory, 3, 7);
  EXPECT_NO_THROW(ShmSegment::expect(memory, 3, 7));
  refuses(2, 7, "room for ranks: 3, not 2");
  refuses(3, 8, "the job number 7, not 8");
  reinterpret_cast<SegmentHead*>(memory.base())->layout += 128;
  refuses(3, 7, "blocks of bytes: ");
}

TEST(ShmSegment, WaitsForEveryRankAndNamesOneThatDoesNotCome) {
  const auto memory =
      std::make_shared<SharedMapping>(MemoryFile("weft-test", ShmSegment::bytes_for(2)).map());
  TestSegment first(0, memory);
  expect_error(ErrorKind::timeout, {"rank 1 did not map the node's memory within 0.01 s"},
               [&] { first.await_ranks(Deadline::in(10ms)); });
  first.has_died = true;
  expect_error(ErrorKind::peer_lost, {"rank 1 has died"}, [&] { first.await_ranks(Deadline::in(100s)); });
  first.has_died = false;
  std::thread other([&] {
    std::this_thread::sleep_for(5ms);
    const TestSegment second(1, memory);
    second.await_ranks(Deadline::in(100s));
  });
  first.await_ranks(Deadline::in(100s));
  other.join();
  first.has_died = true;
  EXPECT_NO_THROW(first.await_ranks(Deadline::in(100s))) << "it came, and may have left";
}

// A ring may be lost that comes at the moment when somebody lies down, so these ring until they are heard.
TEST_F(Doorbells, APeerWakesWhoSleeps) {
  std::thread thread = sleeper();
  while (segment.block(0).doorbell.asleep != 0) {
    peer.ring();
    std::this_thread::sleep_for(1ms);
  }
  thread.join();
  EXPECT_GT(segment.block(0).doorbell.rung, 0U);
  EXPECT_EQ(peer.block(1).doorbell.rung, 0U);  // nobody slept there
}

TEST_F(Doorbells, AnotherThreadOfTheSameRankThatEndsTheWorkWakesItToo) {
  std::thread thread = sleeper();
  work.has_ended = true;
  while (segment.block(0).doorbell.asleep != 0) segment.progress();
  thread.join();
  EXPECT_TRUE(work.over());
}

TEST_F(Doorbells, NobodySleepsForWorkThatIsOver) {
  work.has_ended = true;
  segment.rest(work, 100s);
  EXPECT_TRUE(work.over());
}

}  // namespace
}  // namespace weft::detail
