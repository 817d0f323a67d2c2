#include "core/memory_left.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace weft::detail {
namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// The number in a file that holds nothing else; "max" and files that are not there give none.
std::optional<std::size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

/// The number behind `key` in a file of such lines.
std::optional<std::size_t> number_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::size_t number = 0;
    if (words >> word >> number && word == key) return number;
  }
  return std::nullopt;
}

/// What the limits of a group and of those above it leave.
std::size_t left_in(const std::string& mount, std::string group, bool is_v2) {
  std::size_t left = unlimited;
  for (;;) {
    const std::string folder = mount + group + "/";
    const auto limit = number_in(folder + (is_v2 ? "memory.max" : "memory.limit_in_bytes"));
    const auto used = number_in(folder + (is_v2 ? "memory.current" : "memory.usage_in_bytes"));
    if (limit && used) {
      const auto cached = number_in(folder + "memory.stat", is_v2 ? "inactive_file" : "total_inactive_file");
      const std::size_t needed = *used - std::min(*used, cached.value_or(0));
      left = std::min(left, *limit - std::min(*limit, needed));
    }
    if (group.empty()) return left;
    group.erase(group.find_last_of('/'));
  }
}

}  // namespace

std::optional<std::size_t> memory_left(const std::string& root) {
  std::size_t left = unlimited;
  if (const auto kib = number_in(root + "/proc/meminfo", "MemAvailable:")) left = *kib * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:/path
    const auto controllers = line.find(':');
    const auto path = line.find(":/", controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = line.substr(controllers + 1, path - controllers - 1);
    const std::string group = line.size() > path + 2 ? line.substr(path + 1) : "";
    if (names.empty()) left = std::min(left, left_in(root + "/sys/fs/cgroup", group, true));
    if (names == "memory") left = std::min(left, left_in(root + "/sys/fs/cgroup/memory", group, false));
  }
  return left == unlimited ? std::nullopt : std::optional(left);
}

}  // namespace weft::detail
