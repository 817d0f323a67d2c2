#include "core/memory/per_process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constinit PerProcess<std::vector<int>> table;

/// What a child that is forked now makes of it.
int in_a_child(int (*body)()) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int size_of_table() {
  return table.use([](auto& numbers) { return static_cast<int>(numbers.size()); });
}

TEST(PerProcess, IsOneTableForAllThreads) {
  static constinit PerProcess<std::vector<int>> numbers;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int k = 0; k < 1000; ++k) numbers.use([&](auto& all) { all.push_back(k); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(numbers.use([](auto& all) { return all.size(); }), 8000U);
}

TEST(PerProcess, IsEmptyInAChildAndAsItWasInItsParent) {
  const int before = size_of_table();
  table.use([](auto& numbers) { numbers.push_back(1); });
  EXPECT_EQ(in_a_child(size_of_table), 0);
  EXPECT_EQ(size_of_table(), before + 1);
  const auto grandchild = [] {
    table.use([](auto& numbers) { numbers.push_back(2); });
    return 10 * size_of_table() + in_a_child(size_of_table);
  };
  EXPECT_EQ(in_a_child(grandchild), 10);
}

// A lock that another thread of the parent holds is held for ever in the child.
TEST(PerProcess, IsFreeInAChildThatWasForkedWhileAnotherThreadHadIt) {
  std::atomic<bool> holds = false;
  std::atomic<bool> may_end = false;
  std::thread holder([&] {
    table.use([&](auto&) {
      holds = true;
      while (!may_end) std::this_thread::yield();
    });
  });
  while (!holds) std::this_thread::yield();
  EXPECT_EQ(in_a_child(size_of_table), 0);
  may_end = true;
  holder.join();
}

TEST(PerProcess, GenerationsDifferBetweenAProcessAndWhatItForked) {
  static std::uint64_t mine;
  mine = process_generation();
  EXPECT_EQ(in_a_child([] { return process_generation() == mine ? 1 : 0; }), 0);
  EXPECT_EQ(process_generation(), mine);
}

TEST(PerProcess, AnOriginIsHereInTheProcessThatMadeItAlone) {
  static const Origin parents;
  static int mine;
  mine = getpid();
  EXPECT_TRUE(parents.is_here());
  EXPECT_EQ(
      in_a_child([] {
        if (parents.is_here() || !Origin().is_here()) return 1;
        const std::string line = parents.misuse("the store", "advice", {1, {}, 0}, ", rank 1 of 4").what();
        const std::string right = text("weft: rank 1: process ", getpid(), " uses the store of process ",
                                       mine, ", rank 1 of 4, which forked it; advice");
        return line == right ? 0 : 2;
      }),
      0);
}

TEST(PerProcess, WhatIsKeptForEverDoesNotEnd) {
  static int ended;
  struct Ends {
    std::unique_ptr<int> is_there = std::make_unique<int>();
    Ends() = default;
    Ends(Ends&&) = default;
    ~Ends() { ended += is_there ? 1 : 0; }
  };
  keep_for_ever(Ends());
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace weft::detail
