#include "core/memory_left.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weft::detail {
namespace {

/// A system's files, as far as they tell of memory.
class System : public testing::Test {
 protected:
  System() {
    std::string name = std::filesystem::temp_directory_path() / "weft-memory-XXXXXX";
    root = mkdtemp(name.data());
  }
  ~System() override { std::filesystem::remove_all(root); }
  void has(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << content;
  }

  std::string root;
};

TEST_F(System, ThatSaysNothingLeavesNothingKnown) {
  EXPECT_EQ(memory_left(root), std::nullopt);
  EXPECT_GT(memory_left().value(), 0U);  // this one does
}

TEST_F(System, WithoutLimitsHasWhatTheMachineHas) {
  has("/proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:     600 kB\n");
  has("/proc/self/cgroup", "0::/user.slice\n");
  has("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  has("/sys/fs/cgroup/user.slice/memory.current", "4096\n");
  EXPECT_EQ(memory_left(root), 600U * 1024);
}

TEST_F(System, TheTightestGroupOnTheWayUpCountsAndCachesDoNot) {
  has("/proc/meminfo", "MemAvailable: 600 kB\n");
  has("/proc/self/cgroup", "0::/pod/container\n");
  has("/sys/fs/cgroup/pod/memory.max", "300000\n");
  has("/sys/fs/cgroup/pod/memory.current", "100000\n");
  has("/sys/fs/cgroup/pod/memory.stat", "anon 60000\ninactive_file 40000\nactive_file 1\n");
  has("/sys/fs/cgroup/pod/container/memory.max", "290000\n");
  has("/sys/fs/cgroup/pod/container/memory.current", "10000\n");
  EXPECT_EQ(memory_left(root), 240000U);
}

TEST_F(System, OfTheOldKindIsUnderstoodAndMoreThanTheLimitLeavesNothing) {
  has("/proc/meminfo", "MemAvailable: 600 kB\n");
  has("/proc/self/cgroup", "5:devices:/\n4:memory:/docker/one\n");
  has("/sys/fs/cgroup/memory/memory.limit_in_bytes", "200000\n");
  has("/sys/fs/cgroup/memory/memory.usage_in_bytes", "150000\n");
  EXPECT_EQ(memory_left(root), 50000U);
  has("/sys/fs/cgroup/memory/memory.usage_in_bytes", "250000\n");
  EXPECT_EQ(memory_left(root), 0U);
}

}  // namespace
}  // namespace weft::detail
