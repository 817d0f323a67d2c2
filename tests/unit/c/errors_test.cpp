// Errors through C: statuses, the last message of each thread, failures of ranks, functions of the caller, and a forked child.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "unit/c/some_of_each.hpp"

namespace weft::test {
namespace {

TEST(ErrorsInC, AStatusHasANameAndTheExitCodeOfItsKind) {
  const struct {
    weft_status_t status;
    const char* name;
    int code;
  } all[] = {{WEFT_OK, "ok", 0},
             {WEFT_USAGE, "usage", 42},
             {WEFT_MISMATCH, "mismatch", 42},
             {WEFT_TIMEOUT, "timeout", 75},
             {WEFT_PEER_LOST, "peer lost", 75},
             {WEFT_SYSTEM, "system", 70},
             {WEFT_INTERNAL, "internal", 70},
             {7, "unknown", 70},
             {-1, "unknown", 70}};
  for (const auto& one : all) {
    EXPECT_STREQ(weft_status_name(one.status), one.name);
    EXPECT_EQ(weft_exit_code(one.status), one.code) << one.name;
  }
  EXPECT_GT(std::strlen(weft_version()), 4U);
  EXPECT_NE(std::strstr(weft_built_with(), "with"), nullptr);
}

TEST(ErrorsInC, EachThreadHasItsOwnLastErrorWhichStaysUntilItsNext) {
  std::thread([] {
    EXPECT_STREQ(weft_error(), "");
    EXPECT_EQ(weft_last_status(), WEFT_OK);
    EXPECT_EQ(weft_comm_rank(nullptr), -1);
    EXPECT_STREQ(weft_error(), "weft: weft_comm_rank: `comm` is NULL; give the handle of a communicator");
    std::thread([] {
      EXPECT_STREQ(weft_error(), "");
      EXPECT_EQ(weft_work_number(nullptr), -1);
      expect_said("weft_work_number");
    }).join();
    expect_said("weft_comm_rank");
    const SomeOfEach some;
    EXPECT_EQ(weft_comm_rank(some.comm), 0);
    expect_said("weft_comm_rank: `comm` is NULL");  // what succeeds leaves it
    EXPECT_EQ(weft_last_status(), WEFT_USAGE);
    const std::string long_word(5000, 'w');
    weft_world_options_t options{};
    options.size = sizeof options;
    options.device = long_word.c_str();
    weft_world_t world = nullptr;
    EXPECT_EQ(weft_world_from_environment(&options, &world), WEFT_USAGE);
    EXPECT_EQ(std::strchr(weft_error(), '\n'), nullptr);
    expect_said(long_word);  // the whole message, however long
  }).join();
}

TEST(ErrorsInC, RanksHearWhyAnotherGaveUpOrFailed) {
  const auto gives_up = [](weft_comm_t comm, void*) -> weft_status_t {
    weft_stream_t stream = nullptr;
    expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
    if (weft_comm_rank(comm) == 1)
      expect_ok(weft_comm_give_up(comm, WEFT_SYSTEM, "the disk of rank 1 is full"));
    weft_work_t work = nullptr;
    weft_status_t status = weft_comm_barrier(comm, stream, &work);
    if (status == WEFT_OK) status = weft_work_wait(work, 60);
    EXPECT_NE(status, WEFT_OK);
    expect_said("the disk of rank 1 is full");
    if (work != nullptr) {
      EXPECT_NE(weft_work_status(work), WEFT_OK);
      EXPECT_EQ(weft_work_done(work), 1);
    }
    expect_ok(weft_work_free(work));
    expect_ok(weft_stream_free(stream));
    return WEFT_OK;
  };
  expect_ok(weft_comm_run_as_threads(3, nullptr, gives_up, nullptr));
  // A rank that returns its error is the first failure, with its message; the others hear of it.
  const auto fails = [](weft_comm_t comm, void*) -> weft_status_t {
    if (weft_comm_rank(comm) == 1) return weft_comm_set_timeout(comm, -5);
    weft_stream_t stream = nullptr;
    expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
    weft_work_t work = nullptr;
    weft_status_t status = weft_comm_barrier(comm, stream, &work);
    if (status == WEFT_OK) status = weft_work_wait(work, 60);
    EXPECT_NE(status, WEFT_OK);
    expect_said("`seconds` is -5 s");
    expect_ok(weft_work_free(work));
    expect_ok(weft_stream_free(stream));
    return WEFT_OK;
  };
  EXPECT_EQ(weft_comm_run_as_threads(2, nullptr, fails, nullptr), WEFT_USAGE);
  expect_said("`seconds` is -5 s");
  const auto odd = [](weft_comm_t, void*) -> weft_status_t { return 99; };
  EXPECT_EQ(weft_comm_run_as_threads(1, nullptr, odd, nullptr), WEFT_USAGE);
  expect_said("the body of a rank returned 99, which is no status of weft");
}

TEST(ErrorsInC, AStreamFailsWithItsFunctionAndWaitsForOneThatSaysAgain) {
  weft_stream_t stream = nullptr;
  expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_QUEUED, &stream));
  std::atomic<int> turns = 0;
  const auto again = [](void* context) {
    return ++*static_cast<std::atomic<int>*>(context) < 5 ? WEFT_AGAIN : 0;
  };
  expect_ok(weft_stream_run(stream, again, &turns));
  weft_event_t event = nullptr;
  expect_ok(weft_stream_record(stream, &event));
  expect_ok(weft_event_wait(event, 60));
  EXPECT_EQ(turns, 5);
  expect_ok(weft_event_status(event));
  expect_ok(weft_event_free(event));
  expect_ok(weft_stream_run(
      stream, [](void*) { return 3; }, nullptr));
  EXPECT_EQ(weft_stream_synchronize(stream, 60), WEFT_SYSTEM);
  expect_said("a function of weft_stream_run() returned 3; 0 is success");
  expect_ok(weft_stream_record(stream, &event));
  EXPECT_EQ(weft_event_wait(event, 60), WEFT_SYSTEM);
  EXPECT_EQ(weft_event_status(event), WEFT_SYSTEM);
  expect_ok(weft_event_free(event));
  expect_ok(weft_stream_free(stream));
  // C++ that throws through C, which it must not, is an error all the same.
  expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
  const auto throws = [](void*) -> int { throw std::runtime_error("from a function in C++"); };
  const weft_status_t submitted = weft_stream_run(stream, throws, nullptr);
  EXPECT_EQ(submitted == WEFT_OK ? weft_stream_synchronize(stream, 60) : submitted, WEFT_SYSTEM);
  expect_said("from a function in C++");
  expect_ok(weft_stream_free(stream));
}

TEST(ErrorsInC, AWaitThatExpiresIsATimeoutAndMayBeRepeated) {
  std::atomic<bool> expired = false;
  const auto body = [](weft_comm_t comm, void* context) -> weft_status_t {
    auto& seen = *static_cast<std::atomic<bool>*>(context);
    weft_stream_t stream = nullptr;
    weft_work_t work = nullptr;
    expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
    if (weft_comm_rank(comm) == 1) {
      while (!seen) std::this_thread::yield();
    }
    expect_ok(weft_comm_barrier(comm, stream, &work));
    if (weft_comm_rank(comm) == 0) {
      EXPECT_EQ(weft_work_done(work), 0);
      expect_ok(weft_work_status(work));
      EXPECT_EQ(weft_work_wait(work, 0.01), WEFT_TIMEOUT);
      expect_said("barrier #1");
      expect_said("rank 1");
      seen = true;
    }
    expect_ok(weft_work_wait(work, 60));
    EXPECT_STREQ(weft_work_operation(work), "barrier");
    EXPECT_EQ(weft_work_number(work), 1);
    expect_ok(weft_work_free(work));
    expect_ok(weft_stream_free(stream));
    return WEFT_OK;
  };
  expect_ok(weft_comm_run_as_threads(2, nullptr, body, &expired));
}

// The thread sanitizer refuses threads in a child of a process with threads; the child here starts none.
TEST(ErrorsInC, AForkedChildIsTold) {
  const auto body = [](weft_comm_t comm, void*) -> weft_status_t {
    weft_stream_t stream = nullptr;
    expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
    if (weft_comm_rank(comm) == 0) {
      const pid_t child = fork();
      if (child == 0) {
        int wrong = 0;
        float one = 1;
        wrong += weft_comm_all_reduce(comm, &one, &one, 1, WEFT_F32, WEFT_SUM, stream, nullptr) != WEFT_USAGE;
        wrong += std::strstr(weft_error(), "which forked it") == nullptr ? 2 : 0;
        weft_buffer_t buffer = nullptr;
        wrong += weft_buffer_create(comm, WEFT_F32, 1, &buffer) != WEFT_USAGE ? 4 : 0;
        wrong += weft_comm_split(comm, 0, 0, &comm) != WEFT_USAGE ? 8 : 0;
        weft_group_t group = nullptr;
        wrong += weft_group_create(comm, WEFT_HOST, &group) != WEFT_OK ? 16 : 0;
        wrong += weft_group_send(group, &one, 1, WEFT_F32, 1, 0) != WEFT_OK ? 16 : 0;
        wrong += weft_group_start(group, stream, nullptr) != WEFT_USAGE ? 32 : 0;
        wrong += weft_comm_free(comm) != WEFT_OK ? 64 : 0;
        _exit(wrong);
      }
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status)) << status;
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
    weft_work_t work = nullptr;
    expect_ok(weft_comm_barrier(comm, stream, &work));
    expect_ok(weft_work_wait(work, 60));  // the parent goes on
    expect_ok(weft_work_free(work));
    expect_ok(weft_stream_free(stream));
    return WEFT_OK;
  };
  expect_ok(weft_comm_run_as_threads(2, nullptr, body, nullptr));
}

}  // namespace
}  // namespace weft::test
