// Handles: their tables beside a plain map, and objects that are freed while they are in use.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "unit/c/some_of_each.hpp"

namespace weft::test {
namespace {

// The twin is a map of all handles that there ever were, and whether they are in use.
TEST(Handles, ATableSaysWhatAPlainMapSays) {
  const SomeOfEach some;
  std::map<weft_event_t, bool> known;
  std::vector<weft_event_t> all;
  std::mt19937 random(1);
  for (int turn = 0; turn < 20'000; ++turn) {
    if (all.empty() || random() % 3 == 0) {
      weft_event_t event = nullptr;
      expect_ok(weft_stream_record(some.stream, &event));
      ASSERT_TRUE(known.emplace(event, true).second) << "a handle was given twice";
      all.push_back(event);
    }
    const weft_event_t one = all[random() % all.size()];
    ASSERT_EQ(weft_event_done(one), known[one] ? 1 : -1) << turn;
    if (random() % 3 == 0) {
      ASSERT_EQ(weft_event_free(one), known[one] ? WEFT_OK : WEFT_USAGE) << turn;
      known[one] = false;
    }
  }
  for (const auto& [event, is_used] : known) {
    ASSERT_EQ(weft_event_free(event), is_used ? WEFT_OK : WEFT_USAGE);
    ASSERT_EQ(weft_event_done(event), -1);
  }
}

TEST(Handles, ThousandsMayBeInUse) {
  const SomeOfEach some;
  std::vector<weft_work_t> works(5000);
  for (weft_work_t& work : works) expect_ok(weft_comm_barrier(some.comm, some.stream, &work));
  const std::int64_t first = weft_work_number(works[0]);
  for (std::size_t i = 0; i < works.size(); ++i) {
    ASSERT_EQ(weft_work_number(works[i]), first + static_cast<std::int64_t>(i));
    expect_ok(weft_work_free(works[i]));
  }
}

TEST(Handles, OfTwoThreadsThatFreeOneOnlyOneDoes) {
  const SomeOfEach some;
  for (int round = 0; round < 200; ++round) {
    weft_event_t event = nullptr;
    expect_ok(weft_stream_record(some.stream, &event));
    std::atomic<int> ready = 0;
    std::atomic<int> freed = 0;
    const auto free_it = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      freed += weft_event_free(event) == WEFT_OK ? 1 : 0;
    };
    std::thread other(free_it);
    free_it();
    other.join();
    ASSERT_EQ(freed, 1);
  }
}

TEST(Handles, AWorkThatAnotherThreadFreesStaysWhileAThreadWaitsForIt) {
  struct Seen {
    std::atomic<bool> waits = false;
    std::atomic<bool> freed = false;
  } seen;
  const auto body = [](weft_comm_t comm, void* context) -> weft_status_t {
    auto& at = *static_cast<Seen*>(context);
    weft_stream_t stream = nullptr;
    weft_work_t work = nullptr;
    expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
    if (weft_comm_rank(comm) == 1) {
      while (!at.freed) std::this_thread::yield();
      expect_ok(weft_comm_barrier(comm, stream, nullptr));
      expect_ok(weft_stream_synchronize(stream, 60));
    } else {
      expect_ok(weft_comm_barrier(comm, stream, &work));
      std::thread other([&] {
        while (!at.waits) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        expect_ok(weft_work_free(work));
        EXPECT_EQ(weft_work_done(work), -1);
        expect_said("a work that was freed");
        at.freed = true;
      });
      at.waits = true;
      expect_ok(weft_work_wait(work, 60));
      other.join();
      EXPECT_EQ(weft_work_wait(work, 60), WEFT_USAGE);
    }
    expect_ok(weft_stream_free(stream));
    return WEFT_OK;
  };
  expect_ok(weft_comm_run_as_threads(2, nullptr, body, &seen));
}

struct Freeing {
  weft_comm_t comm = nullptr;
  weft_stream_t stream = nullptr;
  weft_work_t work = nullptr;
  int called = 0;
};

void free_everything(void* context) {
  auto& all = *static_cast<Freeing*>(context);
  ++all.called;
  expect_ok(weft_work_free(all.work));
  expect_ok(weft_stream_free(all.stream));
  expect_ok(weft_comm_free(all.comm));
  EXPECT_EQ(weft_work_done(all.work), -1);
  EXPECT_EQ(weft_comm_size(all.comm), -1);
}

// At once, and in the call that finds the operation done: waiting, polling, or issuing the next one.
TEST(Handles, AFunctionMayFreeWhatTheCallThatCallsItUses) {
  Freeing at_once;
  expect_ok(weft_comm_self(&at_once.comm));
  expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &at_once.stream));
  expect_ok(weft_comm_barrier(at_once.comm, at_once.stream, &at_once.work));
  expect_ok(weft_work_then(at_once.work, free_everything, &at_once));
  EXPECT_EQ(at_once.called, 1);
  for (const int way : {0, 1, 2, 3}) {
    SCOPED_TRACE(way);
    const auto body = [](weft_comm_t whole, void* context) -> weft_status_t {
      const int how = *static_cast<const int*>(context);
      Freeing all;
      expect_ok(weft_comm_split(whole, 0, 0, &all.comm));
      expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &all.stream));
      const weft_comm_t comm = all.comm;
      expect_ok(weft_comm_barrier(comm, all.stream, &all.work));
      expect_ok(weft_work_then(all.work, free_everything, &all));
      if (all.called == 0) {
        if (how == 0) expect_ok(weft_work_wait(all.work, 60));
        if (how == 1) expect_ok(weft_stream_synchronize(all.stream, 60));
        while (all.called == 0) {
          if (how == 2) {
            EXPECT_GE(weft_stream_poll(all.stream), 0);
          } else if (how == 3) {
            weft_comm_t self = nullptr;
            expect_ok(weft_comm_self(&self));
            EXPECT_EQ(weft_comm_barrier(self, all.stream, nullptr), WEFT_OK) << weft_error();
            expect_ok(weft_comm_free(self));
          } else {
            std::this_thread::yield();
          }
        }
      }
      EXPECT_EQ(all.called, 1);
      return WEFT_OK;
    };
    int how = way;
    expect_ok(weft_comm_run_as_threads(2, nullptr, body, &how));
  }
}

TEST(Handles, AStreamMayBeFreedByItsOwnThread) {
  struct Seen {
    weft_stream_t stream = nullptr;
    std::atomic<bool> freed = false;
  } seen;
  expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_QUEUED, &seen.stream));
  const auto free_it = [](void* context) {
    auto& at = *static_cast<Seen*>(context);
    expect_ok(weft_stream_free(at.stream));
    at.freed = true;
    return 0;
  };
  expect_ok(weft_stream_run(seen.stream, free_it, &seen));
  while (!seen.freed) std::this_thread::yield();
  EXPECT_EQ(weft_stream_poll(seen.stream), -1);
}

TEST(Handles, WhatWasMadeFromAnObjectOutlivesItsHandle) {
  weft_stream_t stream = nullptr;
  weft_comm_t comm = nullptr;
  weft_comm_t part = nullptr;
  weft_buffer_t buffer = nullptr;
  weft_work_t work = nullptr;
  weft_event_t event = nullptr;
  expect_ok(weft_comm_self(&comm));
  expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_QUEUED, &stream));
  expect_ok(weft_comm_split(comm, 3, 0, &part));
  expect_ok(weft_buffer_create(comm, WEFT_F32, 1000, &buffer));
  expect_ok(weft_comm_free(comm));
  auto* const data = static_cast<float*>(weft_buffer_data(buffer));
  for (int i = 0; i < 1000; ++i) data[i] = static_cast<float>(i);
  expect_ok(weft_comm_all_reduce(part, data, data, 1000, WEFT_F32, WEFT_AVG, stream, &work));
  expect_ok(weft_work_event(work, &event));
  expect_ok(weft_work_free(work));
  expect_ok(weft_comm_free(part));
  expect_ok(weft_stream_free(stream));  // finishes the work
  EXPECT_EQ(weft_event_done(event), 1);
  expect_ok(weft_event_wait(event, WEFT_NO_DEADLINE));
  EXPECT_EQ(data[999], 999.0F);
  expect_ok(weft_event_free(event));
  expect_ok(weft_buffer_free(buffer));
}

}  // namespace
}  // namespace weft::test
