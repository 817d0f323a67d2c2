#include "core/memory/host_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/cuda/runtime.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

/// The number that a file consists of; null for "max" and for a file that does not exist.
std::optional<std::size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

/// The number after `key` in a file of lines "key number".
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

/// The memory that the limits of a group, and of the groups above it, leave.
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

/// What `ulimit -v` leaves.
std::size_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const std::size_t used = number_in("/proc/self/statm").value_or(0) * page_bytes();
  return limit.rlim_cur - std::min<std::size_t>(limit.rlim_cur, used);
}

constexpr const char* keep_less =
    "keep less on the host: a smaller share of offloaded state, fewer ranks on a node, or a larger limit of "
    "the container's memory";

// Without this check the process would be killed later, when it touches the pages.
void check_memory_left(std::size_t bytes) {
  const auto left = memory_left();
  if (!left || bytes <= *left) return;
  throw Error(ErrorKind::system,
              text(bytes, " bytes of host memory are asked for, and this rank has ", *left,
                   " left of the machine's memory or its container's"),
              keep_less);
}

std::string lock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "`ulimit -l` is not known";
  if (limit.rlim_cur == RLIM_INFINITY) return "`ulimit -l` is unlimited";
  return text("`ulimit -l` allows ", limit.rlim_cur, " bytes");
}

}  // namespace

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

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
  if (root.empty()) left = std::min(left, address_space_left());
  return left == unlimited ? std::nullopt : std::optional(left);
}

View on_device(Buffer& pinned, Device device) {
  const View view = pinned.view();
  return {view.data(), view.count(), view.dtype(), device};
}

Buffer pinned(Device device, DataType dtype, std::int64_t count) {
  if (count <= 0) return Buffer::on_host(dtype, count);
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  check_memory_left(bytes);
  if (device.is_host()) return Buffer::on_host(dtype, count);
  auto cuda = cuda::runtime();
  void* memory = nullptr;
  try {
    memory = cuda->allocate_on_host(device.index(), bytes);
  } catch (const Error& error) {
    throw Error(
        ErrorKind::system,
        text("cannot pin ", bytes, " bytes of host memory for ", device, ", ", lock_limit(), ": ",
             error.what()),
        text("raise `ulimit -l` (a container's --ulimit memlock=-1) where it is limited; else ", keep_less));
  }
  return Buffer(View(memory, count, dtype),
                [cuda, device](void* address) { cuda->release_on_host(device.index(), address); });
}

}  // namespace weft::detail
