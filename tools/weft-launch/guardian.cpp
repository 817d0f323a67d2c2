#include "guardian.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <utility>

#include "core/base/descriptor.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

void remove(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

/// Whether the leader is gone and its number is another process's now: a group's number is given again only when the group is empty.
bool is_anothers(pid_t group, const detail::Descriptor& leader) {
  const bool gone =
      leader.get() >= 0 && syscall(SYS_pidfd_send_signal, leader.get(), 0, nullptr, 0) != 0 && errno == ESRCH;
  return gone && (kill(group, 0) == 0 || errno == EPERM);
}

}  // namespace

Guardian::Guardian(std::string folder) : folder_(std::move(folder)) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    const Error error = system_error("cannot create a socket");
    remove(folder_);
    throw error;
  }
  process_ = fork();
  if (process_ == 0) {
    close(ends[1]);
    guard(ends[0]);
  }
  if (process_ < 0) {
    const Error error = system_error("cannot start the process that clears away after weft-launch");
    close(ends[0]);
    close(ends[1]);
    remove(folder_);
    throw error;
  }
  close(ends[0]);
  socket_ = ends[1];
}

Guardian::~Guardian() {
  close(socket_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  remove(folder_);  // where something killed the guardian
}

// If the guardian itself was killed, that matters only if weft-launch is then killed too.
void Guardian::tell(const Notice& notice) const {
  while (send(socket_, &notice, sizeof(notice), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void Guardian::guard(int socket) const {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "weft-guardian");  // what kills all processes of one name leaves it
  // Who reads the job's output waits for the last process that holds it.
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nothing < 0 || dup2(nothing, stream) < 0) close(stream);
  }
  std::map<pid_t, detail::Descriptor> groups;  // and the process that leads each
  Notice notice{};
  ssize_t got = 0;
  while ((got = recv(socket, &notice, sizeof(notice), 0)) > 0 || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    if (notice.is_there) {
      groups[notice.group] = detail::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, notice.group, 0)));
    } else {
      groups.erase(notice.group);
    }
  }
  for (const auto& [group, leader] : groups) {
    if (!is_anothers(group, leader)) kill(-group, SIGKILL);
  }
  remove(folder_);
  _exit(0);
}

}  // namespace weft::launch
