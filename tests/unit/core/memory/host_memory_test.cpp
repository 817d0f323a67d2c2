#include "core/memory/host_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/expect_error.hpp"
#include "support/fake_cuda.hpp"

namespace weft::detail {
namespace {

TEST(Pinned, IsZeroedHostMemory) {
  const Buffer buffer = pinned(Device::host(), DataType::f32, 1000);
  EXPECT_EQ(buffer.view().device(), Device::host());
  ASSERT_EQ(buffer.count(), 1000);
  EXPECT_TRUE(std::ranges::all_of(buffer.as<float>(), [](float value) { return value == 0; }));
  EXPECT_EQ(pinned(Device::host(), DataType::f32, 0).count(), 0);
}

TEST(Pinned, SaysHowMuchWasAskedForWhereThereIsLess) {
  test::expect_error(ErrorKind::system,
                     {"35184372088832 bytes of host memory", "left of the machine's memory"},
                     [] { pinned(Device::host(), DataType::f64, std::int64_t{1} << 42); });
}

TEST(Pinned, IsReachedByTheDeviceAtTheSameAddress) {
  const test::WithFakeCuda fake;
  Buffer buffer = pinned(Device::cuda(1), DataType::f32, 10);
  EXPECT_EQ(buffer.view().device(), Device::host());
  const View there = on_device(buffer, Device::cuda(1));
  EXPECT_EQ(there.device(), Device::cuda(1));
  EXPECT_EQ(there.data(), buffer.view().data());
}

TEST(Pinned, SaysWhatMayBeLockedWhereItIsRefused) {
  const test::WithFakeCuda fake;
  fake->refuse_next("allocate_on_host");
  test::expect_error(ErrorKind::system, {"cannot pin 40 bytes", "cuda:0", "ulimit -l", "the fake refuses"},
                     [] { pinned(Device::cuda(0), DataType::f32, 10); });
}

/// A folder with the files in which a system describes its memory.
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
