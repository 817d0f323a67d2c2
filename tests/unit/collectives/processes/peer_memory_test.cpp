// One pidfd of every process and one mapping of every file, whatever asks for them, and none of a process that is another.

#include "collectives/processes/peer_memory.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "support/expect_error.hpp"
#include "unit/collectives/processes/other_process.hpp"

namespace weft::detail {
namespace {

using test::Other;

std::size_t mappings() {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    count += line.find("/memfd:weft-test") != std::string::npos;
  return count;
}

TEST(PeerMemory, IsMappedOnceForAllAndUnmappedByTheLast) {
  const Other other;
  auto one = PeerMemory::of(other.pid(), other.socket());
  auto again = PeerMemory::of(other.pid(), other.socket());
  EXPECT_EQ(one, again);
  auto mapping = one->map(other.fd(), Other::bytes);
  auto same = again->map(other.fd(), Other::bytes);
  EXPECT_EQ(mapping, same);
  EXPECT_EQ(mappings(), 1U);
  mapping->base()[7] = std::byte{3};
  const auto second = one->map(other.second_fd(), Other::bytes);
  EXPECT_NE(second, mapping);
  EXPECT_EQ(second->base()[7], std::byte{0});
  EXPECT_EQ(mappings(), 2U);
  mapping.reset();
  EXPECT_EQ(mappings(), 2U);
  same.reset();
  EXPECT_EQ(mappings(), 1U);
  EXPECT_EQ(one->map(other.fd(), Other::bytes)->base()[7], std::byte{3});
}

TEST(PeerMemory, IsOneForThreadsThatAskAtOnce) {
  const Other other;
  constexpr std::size_t threads = 8;
  std::vector<std::shared_ptr<SharedMapping>> mapped(threads);
  std::vector<std::thread> all;
  for (auto& mapping : mapped) {
    all.emplace_back(
        [&] { mapping = PeerMemory::of(other.pid(), other.socket())->map(other.fd(), Other::bytes); });
  }
  for (std::thread& thread : all) thread.join();
  // A process that nothing holds is forgotten, and so may be its mapping: the mapping alone does not hold it.
  for (const auto& mapping : mapped) EXPECT_EQ(mapping->size(), Other::bytes);
  const auto held = PeerMemory::of(other.pid(), other.socket());
  all.clear();
  for (auto& mapping : mapped) {
    all.emplace_back(
        [&] { mapping = PeerMemory::of(other.pid(), other.socket())->map(other.fd(), Other::bytes); });
  }
  for (std::thread& thread : all) thread.join();
  for (const auto& mapping : mapped) EXPECT_EQ(mapping, mapped.front());
  EXPECT_EQ(mappings(), 1U);
}

TEST(PeerMemory, OfAProcessThatHasEndedStaysAndIsNoOthers) {
  Other other;
  const auto one = PeerMemory::of(other.pid(), other.socket());
  const auto mapping = one->map(other.fd(), Other::bytes);
  other.die();
  mapping->base()[0] = std::byte{1};
  test::expect_error(ErrorKind::peer_lost, {text("process ", other.pid()), "ended"},
                     [&] { (void)one->map(other.fd(), Other::bytes); });
}

// The kernel gives a number out again: here it is made to.
TEST(PeerMemory, AProcessThatGotTheNumberOfOneThatHasEndedIsAnother) {
  Other first;
  const auto one = PeerMemory::of(first.pid(), first.socket());
  const auto mapping = one->map(first.fd(), Other::bytes);
  mapping->base()[7] = std::byte{3};
  first.die();
  for (int tries = 0; tries < 100; ++tries) {
    std::ofstream last("/proc/sys/kernel/ns_last_pid");
    if (!(last << first.pid() - 1 << std::flush)) GTEST_SKIP() << "may not choose the number of a process";
    const Other second;
    if (second.pid() != first.pid()) continue;  // another process was faster
    const auto two = PeerMemory::of(second.pid(), second.socket());
    EXPECT_NE(one, two);
    EXPECT_EQ(two->map(second.fd(), Other::bytes)->base()[7], std::byte{0});
    EXPECT_EQ(PeerMemory::of(second.pid(), second.socket()), two);
    return;
  }
  GTEST_SKIP() << "other processes took the number 100 times";
}

TEST(PeerMemory, AChildThatWasForkedKnowsNoneOfItsParents) {
  const Other other;
  const auto one = PeerMemory::of(other.pid(), other.socket());
  const pid_t child = fork();
  if (child == 0) _exit(PeerMemory::of(other.pid(), other.socket()) == one ? 1 : 0);
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(PeerMemory::of(other.pid(), other.socket()), one);
}

}  // namespace
}  // namespace weft::detail
