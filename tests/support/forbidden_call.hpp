#pragma once
// A system call that is refused from now on, as a container's seccomp profile or a filesystem would.

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "weft/core/error.hpp"

namespace weft::test {

/// In this process and for good: for children of a test. @param second only with this as its second argument
inline void forbid(int call, int error, std::uint32_t second, bool any_second) {
  const auto load = [](std::size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  };
  const std::uint32_t refused = SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
  const auto number = static_cast<std::uint32_t>(call);
  std::array filter{
      load(offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      load(offsetof(seccomp_data, args) + sizeof(std::uint64_t)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0,
                           static_cast<std::uint8_t>(any_second ? 0 : 1)),
      sock_filter BPF_STMT(BPF_RET | BPF_K, refused),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
    throw system_error("cannot forbid a system call");
}
inline void forbid(int call, int error) {
  forbid(call, error, 0, true);
}

}  // namespace weft::test
