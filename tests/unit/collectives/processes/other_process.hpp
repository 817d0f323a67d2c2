#pragma once
// Another process of this node, as ranks are to each other.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sstream>
#include <string>
#include <utility>

#include "collectives/processes/peer_process.hpp"
#include "weft/core/error.hpp"

namespace weft::test {

using detail::IdentitySocket;

/// A process that has an IdentitySocket and two memory files, and waits to be killed.
class Other {
 public:
  Other() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const IdentitySocket identity;
      const MemoryFile file("weft-test", bytes);
      const MemoryFile second("weft-test", bytes);
      const std::string note = text(identity.name(), " ", file.fd(), " ", second.fd(), "\n");
      if (write(ends[1], note.data(), note.size()) < 0) _exit(1);
      for (;;) pause();
    }
    close(ends[1]);
    std::string note;
    for (char next = 0; read(ends[0], &next, 1) == 1 && next != '\n';) note += next;
    close(ends[0]);
    std::istringstream(note) >> socket_ >> fd_ >> second_fd_;
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() { die(); }

  static constexpr std::size_t bytes = 4096;
  int pid() const { return pid_; }
  int fd() const { return fd_; }
  int second_fd() const { return second_fd_; }
  const std::string& socket() const { return socket_; }
  void die() {
    if (std::exchange(over_, true)) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  int second_fd_ = -1;
  std::string socket_;
  bool over_ = false;
};

}  // namespace weft::test
