#include "collectives/network/ucx/abort_message.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace weft::detail {
namespace {

constexpr const char* nothing = "^$";

TEST(AbortMessage, IsWhatTheThreadThatAbortsHasSaidLast) {
  EXPECT_EXIT(
      {
        AbortMessage message;
        for (const char* const line : {"first", "second", "third"}) message.say(line);
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "^third\n$");
}

TEST(AbortMessage, IsEmptyBeforeAndAfter) {
  EXPECT_EXIT(
      {
        const AbortMessage message;
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), nothing);
  EXPECT_EXIT(
      {
        AbortMessage message;
        message.say("line");
        message.say("");
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), nothing);
  EXPECT_EXIT(
      {
        { AbortMessage().say("line"); }
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), nothing);
}

TEST(AbortMessage, IsThatOfNoOtherThread) {
  EXPECT_EXIT(
      {
        AbortMessage message;
        message.say("another's");
        std::thread([] {
          AbortMessage own;
          own.say("its own");
          std::abort();
        }).join();
      },
      testing::KilledBySignal(SIGABRT), "^its own\n$");
  EXPECT_EXIT(
      {
        AbortMessage message;
        message.say("another's");
        std::thread([] { std::abort(); }).join();
      },
      testing::KilledBySignal(SIGABRT), nothing);
}

TEST(AbortMessage, ComesBeforeTheProgramsOwnHandler) {
  EXPECT_EXIT(
      {
        std::signal(SIGABRT, [](int) { _exit(write(STDERR_FILENO, "handler", 7) == 7 ? 3 : 4); });
        AbortMessage message;
        message.say("line");
        std::abort();
      },
      testing::ExitedWithCode(3), "^line\nhandler$");
  EXPECT_EXIT(
      {
        struct sigaction own {};
        own.sa_sigaction = [](int, siginfo_t* info, void*) { _exit(info->si_signo == SIGABRT ? 5 : 6); };
        own.sa_flags = SA_SIGINFO;
        sigaction(SIGABRT, &own, nullptr);
        AbortMessage message;
        message.say("line");
        std::abort();
      },
      testing::ExitedWithCode(5), "^line\n$");
}

TEST(AbortMessage, KeepsNoSignalFromEndingTheProcess) {
  EXPECT_EXIT(
      {
        AbortMessage message;
        message.say("line");
        kill(getpid(), SIGABRT);
        for (;;) pause();
      },
      testing::KilledBySignal(SIGABRT), "^line\n$");
  EXPECT_EXIT(
      {
        std::signal(SIGABRT, SIG_IGN);
        AbortMessage message;
        message.say("line");
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "^line\n$");
}

using Handler = void (*)(int);
Handler handler() {
  struct sigaction now {};
  sigaction(SIGABRT, nullptr, &now);
  return now.sa_handler;
}

TEST(AbortMessage, LeavesTheHandlerAsItWas) {
  const Handler before = handler();
  auto first = std::make_unique<AbortMessage>();
  auto second = std::make_unique<AbortMessage>();
  EXPECT_NE(handler(), before);
  first.reset();
  EXPECT_NE(handler(), before);
  second.reset();
  EXPECT_EQ(handler(), before);

  const Handler own = [](int) {};
  first = std::make_unique<AbortMessage>();
  std::signal(SIGABRT, own);  // since then
  first.reset();
  EXPECT_EQ(std::signal(SIGABRT, before), own);
}

TEST(AbortMessage, MayBeOfManyAtOnce) {
  std::vector<std::unique_ptr<AbortMessage>> many;
  for (int i = 0; i < 200; ++i) many.push_back(std::make_unique<AbortMessage>());
  for (auto& one : many) one->say("one");
  many.clear();
  EXPECT_EXIT(
      {
        AbortMessage message;
        message.say("line");
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "^line\n$");
}

}  // namespace
}  // namespace weft::detail
