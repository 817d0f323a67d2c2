// The bell: who sleeps wakes when another rank rings, or when the work it waits for is over.

#include "collectives/algorithms/shared_ground.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

class TestGround final : public SharedGround {
 public:
  TestGround(int rank, std::shared_ptr<SharedMapping> memory)
      : SharedGround(rank, 2, std::move(memory), 10s, 2) {}
  Address publish(const void*, std::size_t) const override { return {}; }
  std::byte* resolve(int, Address) const override { return nullptr; }
  Buffer allocate(DataType dtype, std::int64_t count) override { return Buffer::on_host(dtype, count); }
};

/// Is over when it is told so.
class Waiting final : public Engagement {
 public:
  std::atomic<bool> has_ended = false;

 private:
  bool advance() override { return has_ended; }
};

class Bells : public testing::Test {
 protected:
  Bells() { ground.engage(work); }
  ~Bells() override { ground.dismiss(work); }
  /// Sleeps in another thread, for far longer than any test may take.
  std::thread sleeper() {
    std::thread thread([this] { ground.rest(work, 100s); });
    while (ground.line(0).bell.asleep == 0) std::this_thread::yield();
    return thread;
  }

  std::shared_ptr<SharedMapping> memory =
      std::make_shared<SharedMapping>(MemoryFile("weft-test", SharedGround::bytes_for(2)).map());
  TestGround ground{0, memory};
  TestGround peer{1, memory};
  Waiting work;
};

// A ring may be lost that comes at the moment when somebody lies down, so these ring until they are heard.
TEST_F(Bells, APeerWakesWhoSleeps) {
  std::thread thread = sleeper();
  while (ground.line(0).bell.asleep != 0) {
    peer.ring();
    std::this_thread::sleep_for(1ms);
  }
  thread.join();
  EXPECT_GT(ground.line(0).bell.rung, 0U);
  EXPECT_EQ(peer.line(1).bell.rung, 0U);  // nobody slept there
}

TEST_F(Bells, AnotherThreadOfTheSameRankThatEndsTheWorkWakesItToo) {
  std::thread thread = sleeper();
  work.has_ended = true;
  while (ground.line(0).bell.asleep != 0) ground.carry_on();
  thread.join();
  EXPECT_TRUE(work.over());
}

TEST_F(Bells, NobodySleepsForWorkThatIsOver) {
  work.has_ended = true;
  ground.rest(work, 100s);
  EXPECT_TRUE(work.over());
}

}  // namespace
}  // namespace weft::detail
