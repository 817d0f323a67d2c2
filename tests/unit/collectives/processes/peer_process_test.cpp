#include "collectives/processes/peer_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "support/expect_error.hpp"
#include "unit/collectives/processes/other_process.hpp"

namespace weft::detail {
namespace {

using test::Other;

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

/// While it lives, so many descriptors can be opened, and no more.
class FewFiles {
 public:
  explicit FewFiles(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int free = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(free);
    const rlimit few{static_cast<rlim_t>(free + more), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(PeerProcess, ALimitOfOpenFilesIsNotTakenForItsEnd) {
  const Other other;
  for (const int more : {0, 1}) {
    const FewFiles few(more);
    test::expect_error(
        ErrorKind::system,
        {text("process ", other.pid()), "Too many open files", "raise the limit of open files (ulimit -n)"},
        [&] { (void)PeerProcess(other.pid(), other.socket()); });
  }
}

TEST(PeerProcess, ANameThatFitsNoSocketIsRefused) {
  for (const std::string& name : {std::string(), std::string(200, 'a')}) {
    test::expect_error(ErrorKind::mismatch, {text(name.size(), " bytes")},
                       [&] { (void)PeerProcess(getpid(), name); });
  }
}

}  // namespace
}  // namespace weft::detail
