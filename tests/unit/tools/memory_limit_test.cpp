#include "memory_limit.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.hpp"
#include "weft/core/text.hpp"

namespace weft::launch {
namespace {

/// A root of /proc and /sys as a kernel shows them.
class Machine : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& content) const {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  const std::string& root() const { return folder_.path(); }
  /// The group has killed so often.
  void counts_v2(const std::string& group, int kills) const {
    write(group + "/memory.events",
          text("low 0\nhigh 7\nmax 12\noom 2\noom_kill ", kills, "\noom_group_kill 0\n"));
  }
  void counts_v1(const std::string& group, int kills) const {
    write(group + "/memory.oom_control", text("oom_kill_disable 0\nunder_oom 0\noom_kill ", kills, "\n"));
  }

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(Machine, OfOneHierarchySaysThatItsGroupReachedItsLimit) {
  const std::string group = "/sys/fs/cgroup/kubepods/pod7";
  write("/proc/self/cgroup", "0::/kubepods/pod7\n");
  write(group + "/memory.max", "67108864\n");
  counts_v2(group, 3);
  const MemoryLimit limit(root());
  EXPECT_EQ(limit.reached(), "");
  counts_v2(group, 4);
  EXPECT_EQ(limit.reached(),
            "the memory limit of 67108864 bytes was reached (" + root() + group + "/memory.max)");
}

TEST_F(Machine, OfSeveralHierarchiesSaysIt) {
  const std::string group = "/sys/fs/cgroup/memory/job";
  write("/proc/self/cgroup", "9:name=systemd:/\n12:memory:/job\n1:cpu:/other\n0::/\n");
  write(group + "/memory.limit_in_bytes", "1048576\n");
  counts_v1(group, 0);
  const MemoryLimit limit(root());
  EXPECT_EQ(limit.reached(), "");
  counts_v1(group, 1);
  EXPECT_NE(limit.reached().find("the memory limit of 1048576 bytes"), std::string::npos);
}

TEST_F(Machine, AContainerThatSeesItsOwnGroupAsTheRootSaysIt) {
  write("/proc/self/cgroup", "0::/system.slice/docker-77.scope\n");
  write("/sys/fs/cgroup/memory.max", "max\n");
  counts_v2("/sys/fs/cgroup", 0);
  const MemoryLimit limit(root());
  counts_v2("/sys/fs/cgroup", 2);
  EXPECT_NE(limit.reached().find("the memory limit of max was reached"), std::string::npos);
}

TEST_F(Machine, WithoutControlGroupsSaysNothing) {
  EXPECT_EQ(MemoryLimit(root()).reached(), "");
  write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(MemoryLimit(root()).reached(), "");
}

}  // namespace
}  // namespace weft::launch
