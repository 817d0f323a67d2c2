#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "weft/collectives/world.hpp"
#include "weft/core/error.hpp"

namespace weft {

// Each part tells apart what the others take for one: the host name two network namespaces of one kernel, the
// boot id two machines with one name, the pid namespace two containers that cannot open each other's memory.
std::string host_id(const Environment& environment) {
  if (const auto given = environment.get(env::host_id)) return *given;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0)
    throw system_error("gethostname failed", "set WEFT_HOST_ID");
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat pid_namespace {};
  if (boot.empty() || stat("/proc/self/ns/pid", &pid_namespace) != 0) {
    throw Error(ErrorKind::system, "cannot name this node: /proc does not show boot id and pid namespace",
                "set WEFT_HOST_ID to a name that is equal only for ranks that share memory");
  }
  return text(host.data(), "/", boot, "/", pid_namespace.st_ino);
}

}  // namespace weft
