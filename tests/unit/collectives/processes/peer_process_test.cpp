#include "collectives/processes/peer_process.hpp"

#include <gtest/gtest.h>
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

TEST(PeerProcess, ANameThatFitsNoSocketIsRefused) {
  for (const std::string& name : {std::string(), std::string(200, 'a')}) {
    test::expect_error(ErrorKind::mismatch, {text(name.size(), " bytes")},
                       [&] { (void)PeerProcess(getpid(), name); });
  }
}

}  // namespace
}  // namespace weft::detail
