#include "signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include "weft/core/error.hpp"

namespace weft::launch {

Signals::Signals() {
  std::signal(SIGCHLD, SIG_DFL);  // if a parent left it ignored, the kernel would reap the ranks itself
  sigemptyset(&watched_);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&watched_, signal);
  if (sigprocmask(SIG_BLOCK, &watched_, &before_) != 0) throw system_error("cannot block signals");
  fd_ = signalfd(-1, &watched_, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ >= 0) return;
  const Error error = system_error("cannot wait for signals");
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  throw error;
}

Signals::~Signals() {
  close(fd_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> Signals::take() {
  signalfd_siginfo info{};
  if (read(fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace weft::launch
