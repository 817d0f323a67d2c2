// The life of an NCCL communicator, against a fake NCCL.

#include "collectives/nccl/nccl_communicator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "fake_nccl.hpp"
#include "support/expect_error.hpp"

namespace weft::detail::nccl {
namespace {

using namespace std::chrono_literals;
using test::expect_error;
using Calls = std::vector<std::string>;

constexpr int newest = 23007;

std::unique_ptr<Communicator> connect(FakeNccl& fake, Options options = {.timeout = 1min}) {
  return std::make_unique<Communicator>(fake.api(), UniqueId{}, 1, 4, options, Deadline::in(options.timeout));
}

void all_reduce(Communicator& comm) {
  comm.call("all_reduce", [](const Api& api, Comm* raw) {
    return api.AllReduce(nullptr, nullptr, 0, f32, sum, raw, nullptr);
  });
}

TEST(NcclCommunicator, IsBlockingAndAnOperationIsOneCall) {
  FakeNccl fake(newest);
  std::atomic<int> entered = 0;
  {
    const auto comm = connect(fake, {.timeout = 1min,
                                     .nccl = {.min_ctas = 2,
                                              .max_ctas = 8,
                                              .cga_size = 4,
                                              .traffic_class = 104,
                                              .cta_policy = CtaPolicy::zero},
                                     .enter = [&] { ++entered; }});
    EXPECT_EQ(entered, 1) << "the thread in which NCCL connects has no device";
    EXPECT_EQ(fake.made_with.blocking, 1);
    EXPECT_EQ(fake.made_with.min_ctas, 2);
    EXPECT_EQ(fake.made_with.max_ctas, 8);
    EXPECT_EQ(fake.made_with.cga_cluster_size, 4);
    EXPECT_EQ(fake.made_with.traffic_class, 104);
    EXPECT_EQ(fake.made_with.cta_policy, 2);
    EXPECT_EQ(fake.made_with.split_share, 0);
    EXPECT_EQ(comm->rank(), 1);
    EXPECT_EQ(comm->size(), 4);
    const int polls = fake.polls;
    all_reduce(*comm);
    EXPECT_EQ(fake.polls, polls) << "an operation asks NCCL what its answer says";
  }
  EXPECT_EQ(fake.calls, (Calls{"CommInitRankConfig", "AllReduce", "CommFinalize", "CommDestroy"}));
}

TEST(NcclCommunicator, OptionsThatNcclDoesNotHaveAreRefused) {
  const auto refused = [](const NcclOptions& options, int library, const char* why, const char* advice) {
    expect_error(ErrorKind::usage, {why, advice}, [&] { expect_known(options, library); });
  };
  const int oldest = version_code(2, 18);
  refused({.min_ctas = 0}, newest, "NcclOptions::min_ctas is 0", "1 to 64");
  refused({.max_ctas = 65}, newest, "NcclOptions::max_ctas is 65", "1 to 64");
  refused({.cga_size = 9}, newest, "NcclOptions::cga_size is 9", "0 to 8");
  refused({.traffic_class = 256}, newest, "NcclOptions::traffic_class is 256", "0 to 255");
  refused({.min_ctas = 8, .max_ctas = 4}, newest, "at least 8 and at most 4", "min_ctas must not be above");
  refused({.traffic_class = 1}, oldest, "NCCL 2.18.0 knows no traffic_class", "came with NCCL 2.26.0");
  refused({.cta_policy = CtaPolicy::speed}, oldest, "NCCL 2.18.0 knows no cta_policy", "2.27.0");
  refused({.cta_policy = CtaPolicy::zero}, version_code(2, 27), "knows no cta_policy zero", "2.28.0");
  expect_known({.min_ctas = 1, .max_ctas = 64, .cga_size = 8}, oldest);
  expect_known({.traffic_class = 255, .cta_policy = CtaPolicy::zero}, newest);
}

TEST(NcclCommunicator, IsPolledWhereTheEnvironmentMakesItNonBlocking) {
  FakeNccl fake(newest);
  fake.non_blocking = true;
  fake.answer("CommInitRankConfig", {in_progress});
  fake.answer("async", {in_progress, in_progress, in_progress, success});
  const auto comm = connect(fake);
  EXPECT_EQ(fake.polls, 4);
  fake.answer("AllReduce", {in_progress});
  fake.answer("async", {in_progress, success});
  all_reduce(*comm);
  EXPECT_EQ(fake.polls, 6);
}

TEST(NcclCommunicator, ConnectingEndsAtTheDeadline) {
  for (const int version : {oldest_version, newest}) {
    {
      FakeNccl fake(version);
      fake.hold("CommInitRankConfig");
      expect_error(ErrorKind::timeout, {"rank 1: connect", "still in progress after ", "a rank did not come"},
                   [&] { connect(fake, {.timeout = 50ms}); });
      fake.await_held_calls();
      EXPECT_EQ(fake.calls_so_far(), Calls{"CommInitRankConfig"}) << "ended what its thread still uses";
    }
    FakeNccl fake(version);
    fake.non_blocking = true;
    fake.answer("CommInitRankConfig", {in_progress});
    fake.answer("async", std::deque<Result>(1'000'000, in_progress));
    expect_error(ErrorKind::timeout, {"rank 1: connect", "still in progress after ", "a rank did not come"},
                 [&] { connect(fake, {.timeout = 50ms}); });
    EXPECT_EQ(fake.calls.back(), "CommAbort");
    EXPECT_EQ(std::ranges::count(fake.calls, "CommAbort"), 1);
  }
}

TEST(NcclCommunicator, WhoConnectsHearsOfARankThatIsGone) {
  FakeNccl fake(newest);
  fake.hold("CommInitRankConfig");
  expect_error(ErrorKind::peer_lost, {"rank 0 has died"}, [&] {
    Communicator(fake.api(), UniqueId{}, 1, 4, {.timeout = 1min}, Deadline::in(1min),
                 [] { throw Error(ErrorKind::peer_lost, "rank 0 has died"); });
  });
}

TEST(NcclCommunicator, WhatNcclRefusesAtConnectIsPassedOn) {
  FakeNccl fake(newest);
  fake.answer("CommInitRankConfig", {invalid_usage});
  fake.last_error = "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000";
  expect_error(ErrorKind::usage, {"NCCL 2.30.7", "Duplicate GPU detected", "a device of its own"},
               [&] { connect(fake); });
  fake.answer("CommInitRankConfig", {remote_error});
  expect_error(ErrorKind::peer_lost, {"remote error"}, [&] { connect(fake); });
  fake.answer("GetUniqueId", {system_error});
  fake.last_error = "no socket interface found";
  expect_error(ErrorKind::system, {"no socket interface found", "NCCL_SOCKET_IFNAME"},
               [&] { Communicator::make_id(*fake.api()); });
}

// NCCL keeps it: every later call would fail with it.
TEST(NcclCommunicator, AnInvalidArgumentBreaksItAsEveryOtherErrorDoes) {
  FakeNccl fake(newest);
  const auto comm = connect(fake);
  fake.answer("AllReduce", {invalid_argument});
  expect_error(ErrorKind::usage, {"rank 1: all_reduce"}, [&] { all_reduce(*comm); });
  EXPECT_TRUE(comm->broken());
  expect_error(ErrorKind::usage, {"rank 1: all_reduce"}, [&] { all_reduce(*comm); });
  EXPECT_EQ(fake.calls.back(), "CommRevoke");
}

TEST(NcclCommunicator, AnyOtherErrorBreaksItForGoodAndEndsPendingWork) {
  struct Case {
    int version;
    Result result;
    ErrorKind kind;
    const char* ended;
  };
  for (const Case& one : {Case{oldest_version, remote_error, ErrorKind::peer_lost, "CommAbort"},
                          Case{22806, unhandled_cuda_error, ErrorKind::system, "CommAbort"},
                          Case{22807, remote_error, ErrorKind::peer_lost, "CommRevoke"},
                          Case{newest, internal_error, ErrorKind::system, "CommRevoke"}}) {
    FakeNccl fake(one.version);
    {
      const auto comm = connect(fake);
      fake.answer("AllReduce", {one.result});
      expect_error(one.kind, {"rank 1: all_reduce", "remote process exited"}, [&] { all_reduce(*comm); });
      EXPECT_TRUE(comm->broken());
      EXPECT_EQ(fake.calls.back(), one.ended);
      const auto before = fake.calls;
      expect_error(one.kind, {"rank 1: all_reduce"}, [&] { all_reduce(*comm); });
      EXPECT_EQ(comm->trouble()->kind(), one.kind);
      expect_error(one.kind, {"rank 1: all_reduce"}, [&] { comm->split(0, 0, 0, 1); });
      EXPECT_EQ(fake.calls, before) << "NCCL was called on a broken communicator";
    }
    EXPECT_EQ(fake.calls.back(), "CommAbort");
    EXPECT_EQ(std::ranges::count(fake.calls, "CommAbort"), 1);
    EXPECT_EQ(std::ranges::count(fake.calls, "CommFinalize"), 0);
  }
}

TEST(NcclCommunicator, ErrorsBetweenCallsAreFoundByLooking) {
  FakeNccl fake(newest);
  const auto comm = connect(fake);
  fake.answer("async", {in_progress});
  EXPECT_FALSE(comm->trouble());
  fake.answer("async", {remote_error});
  const auto trouble = comm->trouble();
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->kind(), ErrorKind::peer_lost);
  EXPECT_NE(std::string(trouble->what()).find("remote process exited"), std::string::npos);
  int told = 0;
  comm->on_break([&](const Error&) {
    ++told;
    EXPECT_NE(fake.calls.back(), "CommRevoke") << "NCCL ended before those who rely on it heard";
  });
  comm->give_up(*trouble);
  comm->give_up(*trouble);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(fake.calls.back(), "CommRevoke");
  const auto other = connect(fake);
  fake.answer("CommGetAsyncError", {system_error});
  EXPECT_EQ(other->trouble()->kind(), ErrorKind::system);
}

// As an operation does that is the first to use a connection.
TEST(NcclCommunicator, AnotherThreadEndsACallThatWaitsForRanks) {
  for (const int version : {oldest_version, 22806, 22807, newest}) {
    FakeNccl fake(version);
    const auto comm = connect(fake);
    fake.hold("AllReduce");
    std::thread watchdog([&] {
      while (!fake.has_waiting_call()) std::this_thread::sleep_for(1ms);
      EXPECT_FALSE(comm->trouble());
      comm->give_up(Error(ErrorKind::peer_lost, "rank 0 has died"));
    });
    expect_error(ErrorKind::peer_lost, {"rank 0 has died"}, [&] { all_reduce(*comm); });
    watchdog.join();
    EXPECT_EQ(fake.calls.back(), version < 22807 ? "CommAbort" : "CommRevoke");
    EXPECT_TRUE(comm->broken());
  }
}

TEST(NcclCommunicator, ACallThatWaitsForRanksByItsNatureEndsAtTheDeadlineOrWhenOneIsGone) {
  const auto registers = [](const Api& api, Comm* raw) {
    return api.AllReduce(nullptr, nullptr, 1, Type::f32, Op::sum, raw, nullptr);
  };
  {
    FakeNccl fake(newest);
    fake.hold("AllReduce");
    const auto comm = connect(fake, {.timeout = 500ms});
    expect_error(ErrorKind::timeout, {"rank 1: register", "still in progress"},
                 [&] { comm->call_apart("register", registers); });
    EXPECT_EQ(fake.calls.back(), "CommRevoke");
  }
  FakeNccl fake(newest);
  fake.hold("AllReduce");
  const auto comm = connect(fake);
  expect_error(ErrorKind::peer_lost, {"rank 0 has died"}, [&] {
    comm->call_apart("register", registers, [] { throw Error(ErrorKind::peer_lost, "rank 0 has died"); });
  });
  EXPECT_TRUE(comm->broken());
}

TEST(NcclCommunicator, ACallThatStaysInProgressBreaksItAtTheDeadline) {
  FakeNccl fake(newest);
  fake.non_blocking = true;
  const auto comm = connect(fake, {.timeout = 500ms});
  fake.answer("AllReduce", {in_progress});
  fake.answer("async", std::deque<Result>(1'000'000, in_progress));
  expect_error(ErrorKind::timeout, {"rank 1: all_reduce", "still in progress"}, [&] { all_reduce(*comm); });
  EXPECT_EQ(fake.calls.back(), "CommRevoke");
}

// NCCL answers success, and has stored no child yet.
TEST(NcclCommunicator, SplitsAndWaitsUntilThePartIsThere) {
  for (const Result answer : {success, in_progress}) {
    for (const int late : {0, 1, 5}) {
      FakeNccl fake(newest);
      fake.non_blocking = late > 0;
      const auto comm = connect(fake, {.timeout = 1min, .share_resources = true});
      fake.late = late;
      fake.answer("CommSplit", {late > 0 ? answer : success});
      const auto part = comm->split(7, 0, 0, 2);
      EXPECT_EQ(part->rank(), 0);
      EXPECT_EQ(part->size(), 2);
      ASSERT_NE(part->raw(), nullptr);
      EXPECT_NE(part->raw(), comm->raw());
      EXPECT_EQ(fake.made_with.split_share, 1);
      EXPECT_EQ(comm->split(no_color, 0, 0, 0), nullptr);
      all_reduce(*comm);
      all_reduce(*part);
    }
  }
}

TEST(NcclCommunicator, APartThatCouldNotBeMadeIsAborted) {
  FakeNccl fake(newest);
  fake.non_blocking = true;
  const auto comm = connect(fake);
  fake.answer("async", {remote_error});
  expect_error(ErrorKind::peer_lost, {"rank 1: split"}, [&] { comm->split(7, 0, 0, 2); });
  EXPECT_TRUE(comm->broken());
  EXPECT_EQ(fake.aborted, std::vector<int>{2});
}

TEST(NcclCommunicator, APartThatNeverComesEndsAtTheDeadline) {
  for (const int version : {oldest_version, newest}) {
    for (const bool non_blocking : {false, true}) {
      FakeNccl fake(version);
      fake.non_blocking = non_blocking;
      {
        const auto comm = connect(fake, {.timeout = 500ms});
        fake.late = 1'000'000;
        if (!non_blocking) fake.hold("CommSplit");
        expect_error(ErrorKind::timeout, {"rank 1: split", "still in progress"},
                     [&] { comm->split(7, 0, 0, 2); });
      }
      EXPECT_EQ(std::ranges::count(fake.aborted, 1), 1);
    }
  }
}

TEST(NcclCommunicator, LeavesLostRanksOut) {
  const std::vector<int> lost{0, 3};
  FakeNccl fake(newest);
  const auto comm = connect(fake);
  EXPECT_EQ(comm->shrink(lost)->rank(), 0);
  EXPECT_EQ(fake.left_out, lost);
  EXPECT_EQ(fake.shrink_flags, 0);
  fake.answer("AllReduce", {remote_error});
  EXPECT_THROW(all_reduce(*comm), Error);
  const auto survivors = comm->shrink(lost);
  EXPECT_EQ(survivors->rank(), 0);
  EXPECT_EQ(survivors->size(), 2);
  EXPECT_EQ(fake.shrink_flags, shrink_abort);
  all_reduce(*survivors);
  fake.answer("CommShrink", {internal_error});
  expect_error(ErrorKind::system, {"rank 1: shrink"}, [&] { comm->shrink(lost); });
}

TEST(NcclCommunicator, SaysWhichVersionsCannotLeaveRanksOut) {
  const std::vector<int> lost{0};
  {
    FakeNccl fake(22605);
    const auto comm = connect(fake);
    expect_error(ErrorKind::usage, {"NCCL 2.26.5", "2.27.0", "connect the ranks that are left anew"},
                 [&] { comm->shrink(lost); });
    EXPECT_FALSE(comm->broken());
  }
  FakeNccl fake(22703);
  const auto comm = connect(fake);
  EXPECT_NE(comm->shrink(lost), nullptr);
  fake.answer("AllReduce", {remote_error});
  EXPECT_THROW(all_reduce(*comm), Error);
  expect_error(ErrorKind::usage, {"broken group", "2.28.7"}, [&] { comm->shrink(lost); });
}

TEST(NcclCommunicator, ItsEndWaitsForTheOthersButNotForEver) {
  for (const bool non_blocking : {false, true}) {
    FakeNccl fake(newest);
    fake.non_blocking = non_blocking;
    fake.answer("CommFinalize", {non_blocking ? in_progress : success});
    connect(fake);
    EXPECT_EQ(fake.calls, (Calls{"CommInitRankConfig", "CommFinalize", "CommDestroy"}));
    fake.calls.clear();
    auto comm = connect(fake, {.timeout = 500ms});
    if (non_blocking) {
      fake.answer("CommFinalize", {in_progress});
      fake.answer("async", std::deque<Result>(1'000'000, in_progress));
    } else {
      fake.hold("CommFinalize");
    }
    comm.reset();
    EXPECT_EQ(fake.calls_so_far(), (Calls{"CommInitRankConfig", "CommFinalize", "CommRevoke", "CommAbort"}));
  }
}

TEST(NcclCommunicator, IsAbortedWhileAnExceptionUnwinds) {
  FakeNccl fake(newest);
  try {
    const auto comm = connect(fake);
    throw std::runtime_error("a step failed");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(fake.calls, (Calls{"CommInitRankConfig", "CommAbort"}));
  }
}

}  // namespace
}  // namespace weft::detail::nccl
