#include "memory_limit.hpp"

#include <array>
#include <filesystem>
#include <fstream>

#include "weft/core/text.hpp"

namespace weft::launch {
namespace {

/// A controller's hierarchy: how its line in /proc/self/cgroup begins after the number, where it is mounted, and its files.
struct Hierarchy {
  const char* line;
  const char* mount;
  const char* events;
  const char* limit;
};
constexpr std::array<Hierarchy, 3> hierarchies{
    {{":memory:", "/sys/fs/cgroup/memory", "memory.oom_control", "memory.limit_in_bytes"},
     {"0::", "/sys/fs/cgroup", "memory.events", "memory.max"},
     {"0::", "/sys/fs/cgroup/unified", "memory.events", "memory.max"}}};

/// Where the process is in this hierarchy: "/job.slice".
std::optional<std::string> place_in(const Hierarchy& hierarchy, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(hierarchy.line);
    if (at == std::string::npos || at > 3) continue;
    return line.substr(at + std::string(hierarchy.line).size());
  }
  return std::nullopt;
}

}  // namespace

MemoryLimit::MemoryLimit(const std::string& root) {
  for (const Hierarchy& hierarchy : hierarchies) {
    const auto place = place_in(hierarchy, root);
    if (!place) continue;
    // A container may see its own group as the root of what is mounted, under a path that is not there.
    for (const std::string& group : {root + hierarchy.mount + *place, root + hierarchy.mount}) {
      events_ = group + "/" + hierarchy.events;
      limit_ = group + "/" + hierarchy.limit;
      if ((before_ = kills())) return;
    }
  }
}

std::optional<std::uint64_t> MemoryLimit::kills() const {
  std::ifstream file(events_);
  std::uint64_t count = 0;
  for (std::string word; file >> word;) {
    if (word == "oom_kill" && file >> count) return count;
  }
  return std::nullopt;
}

std::string MemoryLimit::reached() const {
  if (!before_ || kills().value_or(*before_) == *before_) return {};
  std::ifstream file(limit_);
  std::string bytes;
  file >> bytes;
  return text("the memory limit of ", bytes, bytes == "max" ? "" : " bytes", " was reached (", limit_, ")");
}

}  // namespace weft::launch
