// Event::then(): functions that are called once an event is done.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "support/expect_error.hpp"
#include "weft/core/log.hpp"
#include "weft/core/stream.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;

Deadline soon() {
  return Deadline::in(30s);
}

class Held final : public Task {
 public:
  explicit Held(std::atomic<bool>& open) : open_(open) {}
  bool advance() override { return open_; }

 private:
  std::atomic<bool>& open_;
};

class EventThen : public testing::TestWithParam<bool> {
 protected:
  Event held() { return stream_.submit(std::make_unique<Held>(open_)); }
  static void until(const std::atomic<int>& count, int expected) {
    for (const Deadline deadline = soon(); count < expected && !deadline.passed();)
      std::this_thread::sleep_for(100us);
    EXPECT_EQ(count, expected);
  }

  std::atomic<bool> open_{false};
  std::atomic<int> calls_{0};
  Stream stream_ = GetParam() ? Stream::queued() : Stream();
};
INSTANTIATE_TEST_SUITE_P(Kinds, EventThen, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "queued" : "inline"; });

TEST_P(EventThen, IsCalledAtOnceInTheCallersThreadWhereTheEventIsDone) {
  std::thread::id thread;
  Event().then([&] { thread = std::this_thread::get_id(); });
  EXPECT_EQ(thread, std::this_thread::get_id());
  open_ = true;
  const Event event = held();
  event.wait(soon());
  thread = {};
  event.then([&] { thread = std::this_thread::get_id(); });
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST_P(EventThen, IsCalledOnceWhenTheWorkIsDoneInTheOrderOfItsCalls) {
  std::mutex mutex;
  std::vector<int> order;
  const Event event = held();
  for (int i = 0; i < 5; ++i) {
    event.then([&, i] {
      const std::lock_guard lock(mutex);
      order.push_back(i);
      EXPECT_TRUE(event.done());
      EXPECT_FALSE(event.error());
      ++calls_;
    });
  }
  stream_.poll();
  EXPECT_EQ(calls_, 0);
  open_ = true;
  event.wait(soon());
  until(calls_, 5);
  stream_.synchronize(soon());
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
}

TEST_P(EventThen, IsCalledForWorkThatFailedAndForWorkThatWasDroppedAfterIt) {
  const Event gate = held();
  stream_.run([] { throw Error(ErrorKind::system, "the disk is full"); });
  const Event failed = stream_.record();
  stream_.run([] { ADD_FAILURE() << "ran after an error"; });
  const Event dropped = stream_.record();
  for (const Event* event : {&failed, &dropped}) {
    event->then([&, event] {
      EXPECT_TRUE(event->error());
      ++calls_;
    });
  }
  gate.then([&] {
    EXPECT_FALSE(gate.error());
    ++calls_;
  });
  open_ = true;
  test::expect_error(ErrorKind::system, {"the disk is full"}, [&] { dropped.wait(soon()); });
  until(calls_, 3);
}

TEST_P(EventThen, IsCalledForWorkThatAStreamDropsWhileAnExceptionUnwinds) {
  Event dropped;
  try {
    Stream stream = GetParam() ? Stream::queued() : Stream();
    dropped = stream.submit(std::make_unique<Held>(open_));
    dropped.then([&] { ++calls_; });
    stream_ = Stream();
    throw 1;
  } catch (int) {
  }
  until(calls_, 1);
  EXPECT_TRUE(dropped.error());
}

TEST_P(EventThen, MayUseItsOwnAndOtherStreams) {
  Stream other = GetParam() ? Stream() : Stream::queued();
  const Event event = held();
  event.then([&] {
    stream_.poll();
    stream_.run([&] { ++calls_; });
    other.wait(stream_.record());
    other.run([&] { ++calls_; });
    if (stream_.is_inline())
      stream_.synchronize(soon());  // no task is at work, so this waits for nothing of its own
    other.record().then([&] { ++calls_; });
  });
  open_ = true;
  event.wait(soon());
  // A queued stream's own thread calls the function, maybe after this wait: an inline stream is polled until it was called.
  for (const Deadline deadline = soon(); calls_ < 3 && !deadline.passed(); std::this_thread::yield()) {
    stream_.poll();
    other.poll();
  }
  EXPECT_EQ(calls_, 3);
  stream_.synchronize(soon());
}

// Stream a's task drives stream b: a function of b's event runs when a's task is at work no more.
TEST_P(EventThen, IsCalledWhenNoTaskOfAnotherStreamIsAtWork) {
  Stream a;
  const Event event = held();
  a.wait(event);
  a.run([&] {
    EXPECT_EQ(calls_, GetParam() ? calls_.load() : 1) << "the function waits for all of a's tasks";
  });
  const Event end = a.record();
  event.then([&] {
    ++calls_;
    if (!GetParam()) a.synchronize(soon());
  });
  calls_ = 0;
  open_ = true;
  end.wait(soon());
  until(calls_, 1);
}

TEST_P(EventThen, MayEndTheLastHandleOfItsStreamAndTheEventItself) {
  std::optional<Stream> stream = stream_;
  stream_ = Stream();
  std::optional<Event> event = stream->submit(std::make_unique<Held>(open_));
  std::optional<Event> waited = *event;
  event->then([&] {
    stream.reset();
    event.reset();
    if (!GetParam()) waited.reset();
    ++calls_;
  });
  open_ = true;
  waited->wait(soon());
  until(calls_, 1);
}

TEST_P(EventThen, LogsWhatIsThrownAndGoesOn) {
  std::mutex mutex;
  std::string line;
  log::set_sink([&](log::Level level, std::string_view text) {
    const std::lock_guard lock(mutex);
    if (level == log::Level::error) line = text;
  });
  const Event event = held();
  event.then([] { throw Error(ErrorKind::usage, "no such batch"); });
  event.then([&] { ++calls_; });
  open_ = true;
  event.wait(soon());
  until(calls_, 1);
  Event().then([] { throw 1; });
  log::set_sink({});
  EXPECT_EQ(line, "a function given to Event::then() threw, and no caller can catch it: no std::exception");
  test::expect_error(ErrorKind::usage, {"no function"}, [] { Event().then({}); });
}

TEST_P(EventThen, IsCalledExactlyOnceWhoeverFindsTheEventDone) {
  constexpr int rounds = 300;
  constexpr int threads = 3;
  for (int round = 0; round < rounds; ++round) {
    open_ = false;
    calls_ = 0;
    const Event event = held();
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&] {
        event.then([&] { ++calls_; });
        event.wait(soon());
        event.then([&] { ++calls_; });
      });
    }
    open_ = true;
    for (std::thread& one : all) one.join();
    until(calls_, 2 * threads);
    stream_.synchronize(soon());
  }
}

}  // namespace
}  // namespace weft
