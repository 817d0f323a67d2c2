#pragma once
// The signals that a launcher waits for, blocked while it lives and read from a descriptor. Made before the first process is
// started: a signal is then never lost, and a child takes the mask of before.

#include <csignal>
#include <optional>

namespace weft::launch {

class Signals {
 public:
  /// SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2. @throws Error (system)
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  const sigset_t& before() const { return before_; }
  /// The next signal that has arrived; nullopt if there is none.
  std::optional<int> take();

 private:
  sigset_t watched_{};
  sigset_t before_{};
  int fd_ = -1;
};

}  // namespace weft::launch
