// Whom a rank calls, when and at which address. Time is what a test says it is; nothing is sent.

#include "collectives/network/tcp/tcp_calls.hpp"

#include <gtest/gtest.h>

#include <set>

namespace weft::detail {
namespace {

using namespace std::chrono_literals;
using Call = Calls::Call;

class TcpCalls : public testing::Test {
 protected:
  void expect_calls(Calls& calls, const std::vector<Call>& expected) {
    std::vector<Call> begun;
    while (const auto next = calls.next(now)) begun.push_back(*next);
    EXPECT_EQ(begun, expected);
  }
  Calls::Time now = Calls::Time(1h);
};

TEST_F(TcpCalls, TheRankJustBelowIsCalledFirstAndOnlySoManyAtATime) {
  Calls calls(std::vector<std::size_t>(100, 1), now);
  std::vector<Call> first;
  for (std::size_t i = 0; i < Calls::at_a_time; ++i) first.push_back({99 - static_cast<int>(i), 0});
  expect_calls(calls, first);
  calls.answered(90);
  expect_calls(calls, {{67, 0}});
  EXPECT_EQ(calls.wakes(), now + Calls::until_the_next);
}

TEST_F(TcpCalls, EachRankIsCalledOnceAtOneAddressWhereAllAnswer) {
  Calls calls(std::vector<std::size_t>(500, 3), now);
  std::set<int> called;
  while (const auto next = calls.next(now)) {
    EXPECT_EQ(next->address, 0U);
    EXPECT_TRUE(called.insert(next->rank).second);
    calls.opened(*next, now);
    calls.answered(next->rank);
    now += 1ms;
  }
  EXPECT_EQ(called.size(), 500U);
  now += 1h;
  expect_calls(calls, {});
  EXPECT_EQ(calls.wakes(), Calls::Time::max());
}

TEST_F(TcpCalls, TheNextAddressIsCalledWhenTheOneBeforeHasBeenSilentForAWhile) {
  Calls calls({3}, now);
  expect_calls(calls, {{0, 0}});
  EXPECT_EQ(calls.wakes(), now + Calls::until_the_next);
  now += Calls::until_the_next - 1ms;
  expect_calls(calls, {});
  now += 1ms;
  expect_calls(calls, {{0, 1}});
  now += Calls::until_the_next;
  expect_calls(calls, {{0, 2}});
  now += 1h;
  expect_calls(calls, {});  // the kernel goes on calling all of them
}

TEST_F(TcpCalls, TheNextAddressIsCalledAtOnceWhenTheOneBeforeFails) {
  Calls calls({2}, now);
  expect_calls(calls, {{0, 0}});
  now += 10ms;
  calls.failed({0, 0}, now);
  expect_calls(calls, {{0, 1}});
  now += Calls::until_again;
  expect_calls(calls, {{0, 0}});  // an interface may have come up
}

TEST_F(TcpCalls, WhatFailsIsCalledAgainUntilTheRankAnswers) {
  Calls calls({1}, now);
  expect_calls(calls, {{0, 0}});
  for (int again = 0; again < 5; ++again) {
    calls.failed({0, 0}, now);
    expect_calls(calls, {});
    now += Calls::until_again;
    expect_calls(calls, {{0, 0}});
  }
  calls.failed({0, 0}, now);
  calls.answered(0);
  now += 1h;
  expect_calls(calls, {});
}

TEST_F(TcpCalls, AFailureOfAnEarlierAddressDoesNotHurryTheNextButOne) {
  Calls calls({3}, now);
  expect_calls(calls, {{0, 0}});
  now += Calls::until_the_next;
  expect_calls(calls, {{0, 1}});
  calls.failed({0, 0}, now);
  expect_calls(calls, {});
  now += Calls::until_again;
  expect_calls(calls, {{0, 0}});
  now += Calls::until_the_next - Calls::until_again;
  expect_calls(calls, {{0, 2}});
}

TEST_F(TcpCalls, AConnectionThatSaysNothingIsGivenLongerBeforeTheNextAddress) {
  Calls calls({2}, now);
  expect_calls(calls, {{0, 0}});
  now += 1ms;
  calls.opened({0, 0}, now);
  now += Calls::until_the_next;
  expect_calls(calls, {});
  now += Calls::until_the_next_when_open - Calls::until_the_next;
  expect_calls(calls, {{0, 1}});
}

TEST_F(TcpCalls, RanksThatAreSilentHoldUpNoOthers) {
  const int silent = static_cast<int>(Calls::at_a_time);
  Calls calls(std::vector<std::size_t>(static_cast<std::size_t>(silent) + 2, 2), now);
  for (int i = 0; i < silent; ++i) EXPECT_EQ(calls.next(now), (Call{silent + 1 - i, 0}));
  expect_calls(calls, {});
  now += Calls::until_the_next;
  EXPECT_EQ(calls.next(now), (Call{1, 0}));  // it has waited for longer than their second addresses
  EXPECT_EQ(calls.next(now), (Call{0, 0}));
  EXPECT_EQ(calls.next(now), (Call{silent + 1, 1}));
}

TEST_F(TcpCalls, WhereNoRankIsToBeCalledNothingIsDue) {
  Calls none({}, now);
  expect_calls(none, {});
  EXPECT_EQ(none.wakes(), Calls::Time::max());
  Calls without_addresses({0}, now);
  expect_calls(without_addresses, {});
}

}  // namespace
}  // namespace weft::detail
