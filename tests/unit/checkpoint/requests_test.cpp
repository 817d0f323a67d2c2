// What a training is asked between its steps: all ranks hear of it in the same step.

#include "weft/checkpoint/requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "support/temporary_folder.hpp"

namespace weft::checkpoint {
namespace {

/// What ranks hear before one of them does `what`, and twice after it.
std::vector<std::array<Request, 3>> heard_around(const std::string& folder,
                                                 const std::function<void()>& what) {
  std::vector<std::array<Request, 3>> heard(3);
  run_as_threads(3, [&](Communicator comm) {
    Requests requests(comm, folder);
    auto& mine = heard[static_cast<std::size_t>(comm.rank())];
    mine[0] = requests.next();
    if (comm.rank() == 1) what();
    comm.barrier(Stream()).wait();
    mine[1] = requests.next();
    mine[2] = requests.next();
  });
  return heard;
}

bool all_are(const std::vector<std::array<Request, 3>>& heard, const std::array<Request, 3>& expected) {
  return std::ranges::count(heard, expected) == std::ssize(heard);
}

TEST(Requests, AFileAsksAllRanksOnce) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/checkpoint-now";
  const auto heard = heard_around(folder.path(), [&] { std::ofstream(file) << ""; });
  EXPECT_TRUE(all_are(heard, {Request::nothing, Request::save, Request::nothing}));
  EXPECT_FALSE(std::filesystem::exists(file));
}

// A notice is one to the process, and stays: every later training of it would be told to end. So this one has a process of its own.
TEST(Requests, ASignalAsksAllRanksForGood) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto heard = heard_around(test::TemporaryFolder().path(), [] { raise(SIGUSR1); });
        std::_Exit(all_are(heard, {Request::nothing, Request::save_and_end, Request::save_and_end}) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft::checkpoint
