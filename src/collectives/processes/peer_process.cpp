#include "collectives/processes/peer_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr const char* one_node =
    "ranks of one node must run as one user, in one pid namespace and one network namespace, and be alive; "
    "set "
    "WEFT_HOST_ID apart where they are not to share memory";

/// `name` in the abstract namespace: no file, and gone with the socket.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() > sizeof(address.sun_path) - 1) {
    throw Error(ErrorKind::mismatch, text("a peer names its socket by ", name.size(), " bytes"),
                "it is no rank of this job, or of another build of weft");
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

constexpr const char* more_files =
    "raise the limit of open files (ulimit -n): a rank keeps one for each other rank of its node, and a few";

bool readable(int fd) {
  pollfd query{fd, POLLIN, 0};
  return poll(&query, 1, 0) > 0;
}

}  // namespace

IdentitySocket::IdentitySocket() : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  constexpr int most_waiting = 4096;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Bound to no name, it gets one of five hexadecimal digits that is free (unix(7), autobind).
  if (socket_.get() < 0 ||
      bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) != 0 ||
      listen(socket_.get(), most_waiting) != 0)
    throw system_error("cannot open a socket within this machine");
  socklen_t bytes = sizeof(address);
  if (getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0)
    throw system_error("cannot name a socket within this machine");
  name_.assign(address.sun_path + 1, bytes - offsetof(sockaddr_un, sun_path) - 1);
}

PeerProcess::PeerProcess(int pid, const std::string& name)
    : pid_(pid), pidfd_([&] {
        const auto [address, bytes] = address_of(name);
        const Descriptor connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (connection.get() < 0)
          throw system_error(text("cannot open a socket to process ", pid), more_files);
        int status = 0;
        do {
          status = connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), bytes);
        } while (status != 0 && errno == EINTR);
        if (status != 0) {
          const Error cause = system_error(text("no process listens where process ", pid, " said it does"));
          throw Error(ErrorKind::peer_lost, cause.problem(), one_node);
        }
        ucred who{};
        socklen_t size = sizeof(who);
        if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
          throw system_error(text("cannot see which process is ", pid));
        if (who.pid != pid || who.uid != geteuid()) {
          throw Error(ErrorKind::mismatch,
                      text("a peer says that it is process ", pid, ", and the kernel that it is process ",
                           who.pid, " of user ", who.uid, "; this is user ", geteuid()),
                      one_node);
        }
        Descriptor result(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        if (result.get() < 0 && errno != ESRCH)
          throw system_error(text("cannot watch process ", pid), more_files);
        if (result.get() < 0 || readable(connection.get()))
          throw Error(ErrorKind::peer_lost, text("process ", pid, " ended while this one connected to it"),
                      one_node);
        return result;
      }()) {}

bool PeerProcess::ended() const {
  return readable(pidfd_.get());
}

// proc(5): /proc/PID/stat is "PID (NAME) STATE ...", and a name may hold any character.
bool PeerProcess::stopped() const {
  std::ifstream file(text("/proc/", pid_, "/stat"));
  std::string line;
  std::getline(file, line);
  const std::size_t state = line.rfind(") ") + 2;
  return state < line.size() && (line[state] == 'T' || line[state] == 't') && !ended();
}

MemoryFile PeerProcess::memory(int fd, std::size_t bytes) const {
  const auto expect_alive = [this] {
    if (ended())
      throw Error(ErrorKind::peer_lost, text("process ", pid_, " ended while this one connected to it"),
                  one_node);
  };
  expect_alive();
  MemoryFile file = MemoryFile::of_process(pid_, fd, bytes);
  expect_alive();  // until the file was open, the number was its own
  return file;
}

}  // namespace weft::detail
