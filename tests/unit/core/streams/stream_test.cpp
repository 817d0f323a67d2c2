#include "weft/core/stream.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/streams/interruption.hpp"
#include "support/expect_error.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;

/// Completes when the gate is opened.
class Gated final : public Task {
 public:
  explicit Gated(std::atomic<bool>& open) : open_(open) {}
  bool advance() override { return open_; }

 private:
  std::atomic<bool>& open_;
};

class EveryStream : public testing::TestWithParam<bool> {
 protected:
  Stream stream_ = GetParam() ? Stream::queued() : Stream();
};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryStream, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "queued" : "inline"; });

TEST_P(EveryStream, RunsWorkInTheOrderOfTheCalls) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) stream_.run([&order, i] { order.push_back(i); });
  stream_.synchronize();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(stream_.poll());
}

TEST_P(EveryStream, AnEventIsDoneOnlyAfterAllWorkBeforeIt) {
  std::atomic<bool> open = false;
  bool ran = false;
  stream_.submit(std::make_unique<Gated>(open));
  stream_.run([&] { ran = true; });
  const Event event = stream_.record();
  EXPECT_FALSE(event.done());
  open = true;
  event.wait(Deadline::in(10s));
  EXPECT_TRUE(ran);
}

TEST_P(EveryStream, HasNothingLeftToDoBeforeItsOwnWork) {
  std::atomic<bool> open = false;
  bool nothing_left = false;
  stream_.submit(std::make_unique<Gated>(open));
  stream_.run([&] { nothing_left = stream_.poll(); });
  stream_.submit(std::make_unique<Gated>(open));  // behind it
  open = true;
  stream_.synchronize(Deadline::in(10s));
  EXPECT_TRUE(nothing_left);
}

TEST_P(EveryStream, NeverBlocksAtTheCall) {
  std::atomic<bool> open = false;
  for (int i = 0; i < 10; ++i) stream_.submit(std::make_unique<Gated>(open));
  EXPECT_FALSE(stream_.poll());
  open = true;
  stream_.synchronize(Deadline::in(10s));
}

TEST_P(EveryStream, AnotherStreamWaitsWithoutBlockingTheHost) {
  std::atomic<bool> open = false;
  std::atomic<int> value = 0;
  Stream other = GetParam() ? Stream() : Stream::queued();
  stream_.submit(std::make_unique<Gated>(open));
  stream_.run([&] { value = 1; });
  other.wait(stream_.record());
  other.run([&] { value = value == 1 ? 2 : -1; });
  EXPECT_EQ(value, 0);
  open = true;
  other.synchronize(Deadline::in(10s));
  EXPECT_EQ(value, 2);
}

TEST_P(EveryStream, TheFirstErrorIsStickyAndLaterWorkDoesNotRun) {
  bool ran = false;
  stream_.run([] { throw Error(ErrorKind::usage, "first"); });
  stream_.run([&] { ran = true; });
  stream_.run([] { throw Error(ErrorKind::usage, "second"); });
  test::expect_error(ErrorKind::usage, {"first"}, [&] { stream_.synchronize(); });
  test::expect_error(ErrorKind::usage, {"first"}, [&] { stream_.synchronize(); });
  EXPECT_FALSE(ran);
  Stream other;
  other.wait(stream_.record());
  test::expect_error(ErrorKind::usage, {"first"}, [&] { other.synchronize(); });
}

TEST_P(EveryStream, ADeadlineIsAnErrorAndTheWorkGoesOn) {
  std::atomic<bool> open = false;
  stream_.submit(std::make_unique<Gated>(open));
  test::expect_error(ErrorKind::timeout, {"0.0"}, [&] { stream_.synchronize(Deadline::in(20ms)); });
  open = true;
  stream_.synchronize(Deadline::in(10s));
}

// As Ctrl-C does in a program that an interpreter runs. Other threads wait on.
TEST_P(EveryStream, AThreadsOwnFunctionMayEndItsWaitsAndTheWorkGoesOn) {
  std::atomic<bool> open = false;
  stream_.submit(std::make_unique<Gated>(open));
  const Event event = stream_.record();
  std::thread other([&] { event.wait(Deadline::in(60s)); });
  static thread_local int looks = 0;
  looks = 0;
  const detail::Interruption::Look none = detail::Interruption::set([] {
    if (++looks == 3) throw std::runtime_error("interrupted");
  });
  EXPECT_EQ(none, nullptr);
  EXPECT_THROW(event.wait(Deadline::in(60s)), std::runtime_error);
  detail::Interruption::set(none);
  EXPECT_FALSE(event.done());
  open = true;
  event.wait(Deadline::in(60s));
  other.join();
  EXPECT_EQ(looks, 3);
}

TEST_P(EveryStream, WorkMaySubmitMoreToItsOwnStreamButNotWaitForIt) {
  bool nested = false;
  stream_.run([&] { stream_.run([&] { nested = true; }); });
  stream_.synchronize();  // the outer work, which submitted the inner before it was done
  stream_.synchronize();
  EXPECT_TRUE(nested);
  std::atomic<bool> never = false;
  stream_.run([&] {
    stream_.submit(std::make_unique<Gated>(never));
    stream_.synchronize();
  });
  test::expect_error(ErrorKind::usage, {"waits for that very stream"},
                     [&] { stream_.synchronize(Deadline::in(10s)); });
}

TEST_P(EveryStream, TheDestructorFinishesTheWork) {
  std::atomic<int> count = 0;
  {
    Stream stream = GetParam() ? Stream::queued() : Stream();
    for (int i = 0; i < 50; ++i) stream.run([&] { ++count; });
  }
  EXPECT_EQ(count, 50);
}

TEST_P(EveryStream, TheDestructorWaitsForWorkThatAnotherThreadCarries) {
  std::atomic<bool> open = false;
  std::atomic<bool> inside = false;
  std::atomic<bool> leave = false;
  bool ended = false;
  std::optional<Stream> stream = GetParam() ? Stream::queued() : Stream();
  stream->submit(std::make_unique<Gated>(open));
  stream->run([&] {
    inside = true;
    while (!leave) std::this_thread::yield();
    ended = true;
  });
  const Event event = stream->record();
  std::thread carrier([&] {
    open = true;
    event.wait(Deadline::in(10s));
  });
  while (!inside) std::this_thread::yield();
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    leave = true;
  });
  stream.reset();
  EXPECT_TRUE(ended);
  carrier.join();
  later.join();
}

TEST_P(EveryStream, WorkMayLetGoOfItsOwnStream) {
  std::atomic<int> count = 0;
  std::optional<Stream> stream = GetParam() ? Stream::queued() : Stream();
  std::atomic<bool> open = false;
  stream->submit(std::make_unique<Gated>(open));
  stream->run([&count, own = *stream]() mutable { ++count; });
  const Event last = (stream->run([&] { ++count; }), stream->record());
  stream.reset();
  open = true;
  last.wait(Deadline::in(10s));
  EXPECT_EQ(count, 2);
}

TEST_P(EveryStream, UnwindingDropsTheWorkInsteadOfWaitingForIt) {
  std::atomic<bool> never = false;
  Event event;
  try {
    Stream stream = GetParam() ? Stream::queued() : Stream();
    event = stream.submit(std::make_unique<Gated>(never));
    throw 1;
  } catch (int) {
  }
  test::expect_error(ErrorKind::usage, {"destroyed"}, [&] { event.wait(Deadline::in(10s)); });
}

TEST(Stream, TwoInlineStreamsMayWaitForEachOther) {
  Stream a;
  Stream b;
  std::atomic<bool> open = false;
  const Event first = a.submit(std::make_unique<Gated>(open));
  b.wait(first);
  const Event second = b.record();
  a.wait(second);
  const Event third = a.record();
  open = true;
  third.wait(Deadline::in(10s));
}

TEST(Stream, ManyThreadsMayPollOneInlineStream) {
  Stream stream;
  std::atomic<bool> open = false;
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  stream.submit(std::make_unique<Gated>(open));
  for (int i = 0; i < 200; ++i) {
    stream.run([&] {
      most = std::max(most.load(), ++running);
      --running;
    });
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stream.poll()) std::this_thread::yield();
    });
  }
  open = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

TEST(Event, ADefaultEventIsDone) {
  EXPECT_TRUE(Event().done());
  Event().wait();
}

// A child ends with its parent's streams, whose work and threads are not there.
TEST_P(EveryStream, IsRefusedInAChildThatWasForkedWhileItHadWork) {
  std::atomic<bool> open = false;
  const Event event = stream_.submit(std::make_unique<Gated>(open));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int refused = 0;
    for (const auto& call :
         {std::function<void()>([&] { event.wait(); }), std::function<void()>([&] { stream_.run([] {}); })}) {
      try {
        call();
      } catch (const Error& error) {
        refused += std::string(error.what()).find("the process that forked this one") != std::string::npos;
      }
    }
    const bool is_done = event.done();
    stream_ = Stream();  // ends without waiting
    stream_.run([&refused] { ++refused; });
    _exit(refused == 3 && !is_done ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  open = true;
  stream_.synchronize();
}

TEST(StreamTest, AnIdleInlineStreamGoesOnInAChild) {
  Stream stream;
  stream.run([] {});
  const pid_t child = fork();
  if (child == 0) {
    int sum = 0;
    stream.run([&] { sum = 7; });
    stream.synchronize();
    _exit(sum == 7 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft
