#include "collectives/shm/peer_process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sstream>
#include <string>
#include <utility>

#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

/// A process that has an IdentitySocket and a memory file, and waits to be killed.
class Other {
 public:
  Other() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const IdentitySocket identity;
      const MemoryFile file("weft-test", bytes);
      const std::string note = text(identity.name(), " ", file.fd(), "\n");
      if (write(ends[1], note.data(), note.size()) < 0) _exit(1);
      for (;;) pause();
    }
    close(ends[1]);
    std::string note;
    for (char next = 0; read(ends[0], &next, 1) == 1 && next != '\n';) note += next;
    close(ends[0]);
    std::istringstream(note) >> socket_ >> fd_;
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() { die(); }

  static constexpr std::size_t bytes = 4096;
  int pid() const { return pid_; }
  int fd() const { return fd_; }
  const std::string& socket() const { return socket_; }
  void die() {
    if (std::exchange(over_, true)) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string socket_;
  bool over_ = false;
};

TEST(PeerProcess, IsTheProcessThatListens) {
  Other other;
  const PeerProcess peer(other.pid(), other.socket());
  EXPECT_FALSE(peer.ended());
  EXPECT_EQ(peer.memory(other.fd(), Other::bytes).size(), Other::bytes);
  other.die();
  EXPECT_TRUE(peer.ended());
  test::expect_error(ErrorKind::peer_lost, {text("process ", other.pid()), "ended"},
                     [&] { (void)peer.memory(other.fd(), Other::bytes); });
}

TEST(PeerProcess, SaysWhetherItIsStoppedAndGoesOn) {
  Other other;
  const PeerProcess peer(other.pid(), other.socket());
  EXPECT_FALSE(peer.stopped());
  kill(other.pid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(other.pid(), &status, WUNTRACED), other.pid());
  EXPECT_TRUE(peer.stopped());
  kill(other.pid(), SIGCONT);
  ASSERT_EQ(waitpid(other.pid(), &status, WCONTINUED), other.pid());
  EXPECT_FALSE(peer.stopped());
  other.die();
  EXPECT_FALSE(peer.stopped());
}

TEST(PeerProcess, ANumberThatIsAnothersIsRefused) {
  const Other one;
  const Other another;
  test::expect_error(ErrorKind::mismatch,
                     {text("says that it is process ", another.pid()), text("it is process ", one.pid())},
                     [&] { (void)PeerProcess(another.pid(), one.socket()); });
}

TEST(PeerProcess, AProcessThatHasEndedIsNotTheOneThatHasItsNumberNow) {
  Other other;
  const std::string socket = other.socket();
  other.die();
  test::expect_error(ErrorKind::peer_lost, {text("process ", getpid()), "no process listens"},
                     [&] { (void)PeerProcess(getpid(), socket); });
}

TEST(PeerProcess, ANameThatFitsNoSocketIsRefused) {
  for (const std::string& name : {std::string(), std::string(200, 'a')}) {
    test::expect_error(ErrorKind::mismatch, {text(name.size(), " bytes")},
                       [&] { (void)PeerProcess(getpid(), name); });
  }
}

}  // namespace
}  // namespace weft::detail
