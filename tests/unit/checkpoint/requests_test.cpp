// What a training is asked between its steps: all ranks hear of it in the same step.

#include "weft/checkpoint/requests.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "support/temporary_folder.hpp"

namespace weft::checkpoint {
namespace {

TEST(Requests, AFileAsksAllRanksOnceAndASignalForGood) {
  const test::TemporaryFolder folder;
  run_as_threads(3, [&](Communicator comm) {
    Requests requests(comm, folder.path());
    const auto all_hear = [&](Request expected) { EXPECT_EQ(requests.next(), expected) << comm.rank(); };
    const auto one_does = [&](auto&& what) {
      comm.barrier(Stream()).wait();
      if (comm.rank() == 1) what();
      comm.barrier(Stream()).wait();
    };
    all_hear(Request::nothing);
    one_does([&] { std::ofstream(folder.path() + "/checkpoint-now") << ""; });
    all_hear(Request::save);
    all_hear(Request::nothing);
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/checkpoint-now"));
    one_does([&] { raise(SIGUSR1); });
    all_hear(Request::save_and_end);
    all_hear(Request::save_and_end);
  });
}

}  // namespace
}  // namespace weft::checkpoint
