// The TCP store, as ranks see it and as strangers do. Only in builds that have one.

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/sockets/job_token.hpp"
#include "meeting_places.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/collectives/world.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using test::expect_error;
using test::free_port;

class TcpStore : public testing::Test {
 protected:
  static constexpr std::size_t greeting_bytes = 48;  // 8 of "weft-st3", a rank of 8 and a challenge of 32

  static std::string greeting() {
    const auto challenge = detail::new_challenge();
    return "weft-st3\1" + std::string(7, '\0') + std::string(challenge.begin(), challenge.end());
  }
  static detail::Challenge challenge_in(const std::string& greeting) {
    detail::Challenge challenge{};
    std::copy_n(greeting.begin() + 16, challenge.size(), challenge.begin());
    return challenge;
  }
  /// What a rank says to a server that said `theirs`.
  static std::string proof(const std::string& token, const std::string& ours, const std::string& theirs) {
    const auto proof = detail::prove(token, detail::Side::rank, challenge_in(ours), challenge_in(theirs));
    return {proof.begin(), proof.end()};
  }
  /// The handshake of a rank. @returns what it said: greeting and proof
  static std::pair<std::string, std::string> prove(const test::RawConnection& connection,
                                                   const std::string& token) {
    const std::string ours = greeting();
    connection.send(ours);
    const std::string said = proof(token, ours, connection.receive(greeting_bytes));
    connection.send(said);
    EXPECT_EQ(connection.receive(32).size(), 32U);
    return {ours, said};
  }
  static bool is_refused(const test::RawConnection& connection) {
    return connection.receive(32) == std::string(32, '\0') && connection.is_closed_by_peer();
  }

  /// Within ten seconds: rank 0 does it on a thread of its own.
  bool is_closed() const {
    for (const Deadline end = Deadline::in(10s); !end.passed(); std::this_thread::sleep_for(1ms)) {
      try {
        const test::RawConnection late(port_);
      } catch (const Error&) {
        return true;
      }
    }
    return false;
  }

  const std::string token_ = "0123456789abcdef0123456789abcdef";
  const int port_ = free_port();
};

TEST_F(TcpStore, LetsInWhoKnowsTheTokenAndNobodyElse) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s), {.token = token_});
  for (const std::string& other : {std::string(), token_ + "0", std::string("0123456789abcdef")}) {
    expect_error(ErrorKind::usage, {"rank 1", "has another token than this process", "WEFT_TOKEN"},
                 [&] { make_tcp_store("127.0.0.1", port_, 1, Deadline::in(20s), {.token = other}); });
  }
  auto client = make_tcp_store("127.0.0.1", port_, 1, Deadline::in(20s), {.token = token_});
  client->set("key", "value");
  EXPECT_EQ(server->get("key", Deadline::in(10s)), "value");
  client.reset();
}

TEST_F(TcpStore, TakesNoProofTwiceAndNoneOfItsOwnBack) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s), {.token = token_});
  std::pair<std::string, std::string> said;
  {
    const test::RawConnection right(port_);
    said = prove(right, token_);
  }
  const test::RawConnection replayed(port_);
  replayed.send(said.first);
  EXPECT_EQ(replayed.receive(greeting_bytes).size(), greeting_bytes);
  replayed.send(said.second);
  EXPECT_TRUE(is_refused(replayed));

  // Two connections, each greeted with what the server said on the other one; the server's proof as one's own.
  const test::RawConnection first(port_);
  const test::RawConnection second(port_);
  first.send(greeting());
  const std::string of_server = first.receive(greeting_bytes);
  second.send(of_server);
  const std::string again = second.receive(greeting_bytes);
  const auto reflected =
      detail::prove(token_, detail::Side::server, challenge_in(of_server), challenge_in(again));
  second.send({reflected.begin(), reflected.end()});
  EXPECT_TRUE(is_refused(second));
  first.send(std::string(32, '\0'));
  EXPECT_TRUE(is_refused(first));
}

// The oldest of those that have not proved that they are of the job. The others may still do so.
TEST_F(TcpStore, ShedsTheFirstOfACrowd) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s), {.token = token_});
  const test::RawConnection first(port_);
  std::vector<std::unique_ptr<test::RawConnection>> crowd;
  for (int i = 0; i < 128; ++i) crowd.push_back(std::make_unique<test::RawConnection>(port_));
  EXPECT_TRUE(first.is_closed_by_peer());
  prove(*crowd.front(), token_);
  prove(*crowd.back(), token_);
}

TEST_F(TcpStore, ClosesWhoAnnouncesMoreThanAValueMayHave) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s), {.token = token_});
  // Within what all requests together may have: 8 KiB in the key's length, 32 MiB in the value's.
  for (const auto& [at, byte] : {std::pair(9, '\x20'), std::pair(15, '\x02')}) {
    const test::RawConnection rank(port_);
    prove(rank, token_);
    std::string head(24, '\0');
    head.replace(0, 5, "wft1\1");
    head[static_cast<std::size_t>(at)] = byte;
    rank.send(head);
    EXPECT_TRUE(rank.is_closed_by_peer()) << "byte " << at;
  }
}

/// An IPv4 address of this machine that others can reach; empty where there is none.
std::string reachable_address() {
  ifaddrs* first = nullptr;
  std::string found;
  if (getifaddrs(&first) != 0) return found;
  for (const ifaddrs* one = first; one != nullptr && found.empty(); one = one->ifa_next) {
    char name[NI_MAXHOST];
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
        (one->ifa_flags & IFF_LOOPBACK) == 0 &&
        getnameinfo(one->ifa_addr, sizeof(sockaddr_in), name, sizeof(name), nullptr, 0, NI_NUMERICHOST) == 0)
      found = name;
  }
  freeifaddrs(first);
  return found;
}

TEST_F(TcpStore, ListensOnNoOtherAddressThanItAdvertises) {
  const std::string address = reachable_address();
  if (address.empty()) GTEST_SKIP() << "this machine has loopback alone";
  const auto server = make_tcp_store(address, port_, 0, Deadline::in(20s), {.token = token_});
  EXPECT_TRUE(is_closed());  // RawConnection tries 127.0.0.1
  auto client = make_tcp_store(address, port_, 1, Deadline::in(20s), {.token = token_});
  client->set("key", "value");
  client.reset();
}

TEST_F(TcpStore, WantsATokenBeyondLoopback) {
  for (const int rank : {0, 1}) {
    expect_error(ErrorKind::usage, {"at 192.0.2.1:", "without a token", "WEFT_TOKEN", "WEFT_TOKEN_FILE"},
                 [&] { make_tcp_store("192.0.2.1", port_, rank, Deadline::in(1s)); });
  }
}

// Beyond what it keeps for strangers, the oldest goes: a rank always gets in.
TEST_F(TcpStore, LetsRanksInThroughACrowdOfSilentConnections) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s), {.token = token_});
  std::vector<std::unique_ptr<test::RawConnection>> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(std::make_unique<test::RawConnection>(port_));
    if (i % 2 == 0) silent.back()->send("weft-st2");
  }
  const Deadline deadline = Deadline::in(20s);
  auto client = make_tcp_store("127.0.0.1", port_, 1, deadline, {.token = token_});
  client->set("key", "value");
  EXPECT_LT(deadline.waited_seconds(), 5);
  EXPECT_TRUE(silent.front()->is_closed_by_peer());
  client.reset();
}

TEST_F(TcpStore, SaysWhenItIsFull) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
  const std::string value(16 << 20, 'x');
  int kept = 0;
  expect_error(ErrorKind::usage, {"has no room for key 'k15'", "268435456 bytes"}, [&] {
    for (; kept < 17; ++kept) server->set(text("k", kept), value);
  });
  EXPECT_EQ(kept, 15);
  server->set("small", "value");
  EXPECT_EQ(server->get("small", Deadline::in(10s)), "value");
}

TEST_F(TcpStore, TakesTheTokenFromAFileThatOnlyItsUserReads) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/token";
  std::ofstream(path) << token_ << "\n";
  const auto with_file = [](const std::string& file) {
    return Environment(Environment::Values{{"WEFT_TOKEN_FILE", file}});
  };
  const Environment environment = with_file(path);
  chmod(path.c_str(), 0600);
  EXPECT_EQ(detail::job_token(environment), token_);
  chmod(path.c_str(), 0644);
  expect_error(ErrorKind::usage, {"WEFT_TOKEN_FILE=" + path, "others may read"},
               [&] { detail::job_token(environment); });
  EXPECT_EQ(detail::job_token(Environment()), "");
  expect_error(ErrorKind::usage, {"WEFT_TOKEN has 5 bytes", "openssl rand"}, [&] {
    detail::job_token(Environment(Environment::Values{{"WEFT_TOKEN", "short"}}));
  });
  expect_error(ErrorKind::usage, {"No such file"}, [&] { detail::job_token(with_file(path + "x")); });
  expect_error(ErrorKind::usage, {"Is a directory"}, [&] { detail::job_token(with_file(folder.path())); });
}

TEST_F(TcpStore, NamesThePortThatIsInUse) {
  const std::string token = "the token of this test";
  const auto first = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s), {.token = token});
  expect_error(ErrorKind::usage, {"port " + std::to_string(port_), "in use", "another port"}, [&] {
    make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s), {.token = "the token of another job"});
  });
}

// The rendezvous tells all ranks that there are two.
TEST_F(TcpStore, ASecondRankZeroOfTheSameJobJoins) {
  const auto first = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
  const auto second = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
  first->set("key", "value");
  EXPECT_EQ(second->get("key", Deadline::in(20s)), "value");
}

TEST_F(TcpStore, NamesRankZerosAddressWhenItDoesNotAnswer) {
  const Deadline deadline = Deadline::in(300ms);
  expect_error(ErrorKind::timeout,
               {"rank 2", "rank 0 did not answer at 127.0.0.1:" + std::to_string(port_), "0.3 s"},
               [&] { make_tcp_store("127.0.0.1", port_, 2, deadline); });
  EXPECT_LT(deadline.waited_seconds(), 20);
}

TEST_F(TcpStore, WaitsForRankZeroToListen) {
  std::shared_ptr<Store> server;
  std::thread late([&] {
    std::this_thread::sleep_for(200ms);
    server = make_tcp_store("localhost", port_, 0, Deadline::in(20s));
  });
  auto client = make_tcp_store("localhost", port_, 1, Deadline::in(20s));
  late.join();
  server->set("key", "value");
  EXPECT_EQ(client->get("key", Deadline::in(10s)), "value");
  client.reset();
}

TEST_F(TcpStore, RefusesStrayConnectionsAndGoesOn) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
  for (const std::string& speech :
       {std::string("GET / HTTP/1.1\r\nHost: metrics\r\n\r\n"), std::string(64, '\xff'), std::string("hi")}) {
    const test::RawConnection stray(port_);
    stray.send(speech);
    if (speech.size() >= 8) {
      EXPECT_TRUE(stray.is_closed_by_peer());
    }
  }
  auto client = make_tcp_store("127.0.0.1", port_, 1, Deadline::in(20s));
  client->set("key", "value");
  EXPECT_EQ(server->get("key", Deadline::in(10s)), "value");
  client.reset();
}

TEST_F(TcpStore, RefusesAMessageBeyondTheLimitsWithoutTakingItIn) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
  std::string head("wft1\x01\0\0\0\x01\0\0\0\xff\xff\xff\x7f\0\0\0\0\0\0\0\0", 24);  // a value of 2 GiB
  head.replace(0, 4, "wft1");
  const test::RawConnection greedy(port_);
  prove(greedy, "");
  greedy.send(head);
  EXPECT_TRUE(greedy.is_closed_by_peer());
}

TEST_F(TcpStore, OutlivesClientsThatLeaveWhileTheyWait) {
  auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
  for (int turn = 0; turn < 3; ++turn) {
    auto client = make_tcp_store("127.0.0.1", port_, 1, Deadline::in(20s));
    EXPECT_EQ(client->get("never", Deadline::in(10ms)), std::nullopt);
  }
  {
    // A get that nobody waits for any more: "wft1", get, a key of one byte, for ever.
    const test::RawConnection gone(port_);
    prove(gone, "");
    gone.send(std::string("wft1\x02\0\0\0\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xffk", 25));
    std::this_thread::sleep_for(50ms);
  }
  server->set("k", "value");
  EXPECT_EQ(server->get("k", Deadline::in(10s)), "value");
  const Deadline end = Deadline::in(1min);
  server.reset();
  EXPECT_LT(end.waited_seconds(), 3) << "rank 0 waited for somebody who had left";
}

TEST_F(TcpStore, TellsAWaitingRankThatRankZeroIsGone) {
  auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
  const auto client = make_tcp_store("127.0.0.1", port_, 1, Deadline::in(20s));
  std::thread end([&] { server.reset(); });
  expect_error(ErrorKind::peer_lost, {"rank 1", "rank 0 at 127.0.0.1:" + std::to_string(port_) + " is gone"},
               [&] { client->get("never", Deadline::in(30s)); });
  end.join();
}

// A rank that has failed tells the others why in several words; each would take as long as the first.
TEST_F(TcpStore, GivesARankZeroThatWasSilentLittleTimeForTheNextAnswer) {
  const pid_t server = fork();
  if (server == 0) {
    const auto store = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
    for (;;) pause();
  }
  const auto client = make_tcp_store("127.0.0.1", port_, 1, Deadline::in(2s));
  kill(server, SIGSTOP);
  waitpid(server, nullptr, WUNTRACED);  // until it has stopped
  expect_error(ErrorKind::timeout, {"rank 1", "did not answer within 3.5 s"},
               [&] { client->set("key", "value"); });
  for (const std::string key : {"key", "another"}) {
    expect_error(ErrorKind::timeout, {"rank 1", "did not answer", "within 0.5 s"},
                 [&] { client->set(key, "value"); });
  }
  kill(server, SIGCONT);
  for (const Deadline end = Deadline::in(20s); !end.passed();) {  // it is heard again
    try {
      client->set("late", "value");
      break;
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(client->get("late", Deadline::in(10s)), "value");
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
}

TEST_F(TcpStore, ClosesThePortOnceAllRanksAreThere) {
  const auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s), {.token = token_});
  auto client = make_tcp_store("127.0.0.1", port_, 1, Deadline::in(20s), {.token = token_});
  const test::RawConnection stranger(port_);
  for (Store* store : {server.get(), client.get()}) store->stop_listening();
  EXPECT_TRUE(stranger.is_closed_by_peer());
  EXPECT_TRUE(is_closed());

  // The ranks go on: a rank's threads share its connection, and one that asks for what never comes does not keep it.
  std::atomic<bool> over = false;
  std::thread asks([&] {
    while (!over) EXPECT_EQ(client->get("never", Deadline::in(20ms)), std::nullopt);
  });
  for (int i = 0; i < 20; ++i) {
    client->set(text("key", i), text(i));
    EXPECT_EQ(server->get(text("key", i), Deadline::in(10s)), text(i));
  }
  over = true;
  asks.join();
  client.reset();
}

TEST_F(TcpStore, SaysOnEveryThreadThatRankZeroIsGoneAfterThePortWasClosed) {
  auto server = make_tcp_store("127.0.0.1", port_, 0, Deadline::in(20s));
  const auto client = make_tcp_store("127.0.0.1", port_, 1, Deadline::in(20s));
  for (Store* store : {server.get(), client.get()}) store->stop_listening();
  const auto hear = [&] {
    expect_error(ErrorKind::peer_lost, {"rank 1", "is gone"},
                 [&] { client->get("never", Deadline::in(30s)); });
  };
  std::thread end([&] { server.reset(); });
  std::thread another(hear);
  hear();
  another.join();
  end.join();
  hear();  // also later
}

TEST_F(TcpStore, RanksThatAreConnectedLetNoOtherProcessIn) {
  const std::string address = text("tcp://127.0.0.1:", port_);
  const auto rank = [&](int number) {
    const World world = World::from_environment(
        {.rank = number, .size = 2, .rendezvous = address, .connect_timeout = 20s}, Environment());
    Communicator all = connect(world);
    Stream stream(Device::host());
    all.barrier(stream).wait();
    if (number == 1) {
      EXPECT_TRUE(is_closed());
    }
    all.split(0, number)->barrier(stream).wait();  // they meet at the store
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
}

TEST_F(TcpStore, RecognizesAnotherProgramThatListensAtItsAddress) {
  const test::Parrot parrot(port_);
  expect_error(ErrorKind::usage,
               {"something else than rank 0 of weft listens at 127.0.0.1:" + std::to_string(port_)},
               [&] { make_tcp_store("127.0.0.1", port_, 1, Deadline::in(20s)); });
}

}  // namespace
}  // namespace weft
