#pragma once
// Whether the kernel killed a process because the control group (the container) reached its memory limit. The process itself
// cannot say so; the group counts it, under cgroup v2 in memory.events, under v1 in memory.oom_control
// (Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux).

#include <cstdint>
#include <optional>
#include <string>

namespace weft::launch {

class MemoryLimit {
 public:
  /// The group that this process is in; counts from now. @param root before /proc and /sys; for tests
  explicit MemoryLimit(const std::string& root = {});
  /// "the memory limit of 67108864 bytes was reached (/sys/fs/cgroup/memory.max)"; empty if the kernel has killed no process for
  /// it since, or if that cannot be known.
  std::string reached() const;

 private:
  std::optional<std::uint64_t> kills() const;

  std::string events_{};  // the file with the count; empty if there is none
  std::string limit_{};   // the file with the limit
  std::optional<std::uint64_t> before_{};
};

}  // namespace weft::launch
