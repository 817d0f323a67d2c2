// A rank's figures over HTTP and in a file, read as strangers read them; and what strangers do besides.

#include "weft/metrics/metrics.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "support/expect_error.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// A TCP connection of a scraper's.
class Connection {
 public:
  explicit Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval at_most{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &at_most, sizeof(at_most));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0)
      throw std::runtime_error("nobody listens on port " + std::to_string(port));
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Connection& send(const std::string& bytes) {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    return *this;
  }
  /// Sends requests and reads no answer, until neither side's memory takes more.
  Connection& flood() {
    const std::string many = [] {
      std::string requests;
      for (int i = 0; i < 1000; ++i) requests += "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";
      return requests;
    }();
    const int small = 1024;
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    while (::send(socket_, many.data(), many.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
    }
    return *this;
  }
  /// Sends a byte now and then. @returns whether the other side closes within a minute
  bool is_cut_off() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      pollfd closed{socket_, POLLRDHUP, 0};
      if (::poll(&closed, 1, 100) < 0 || (closed.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return true;
      (void)::send(socket_, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return false;
  }
  /// All that comes until the other side closes.
  std::string rest() {
    std::string all;
    char some[4096];
    for (ssize_t got = 0; (got = ::recv(socket_, some, sizeof(some), 0)) > 0;)
      all.append(some, static_cast<std::size_t>(got));
    return all;
  }

 private:
  int socket_;
};

std::string get(int port, const std::string& target = "/metrics", const std::string& method = "GET") {
  return Connection(port)
      .send(method + " " + target + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
      .rest();
}

/// The first of two ports that nobody has.
int free_ports() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(any);
  int port = 65535;
  if (::bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&any), &size) == 0)
    port = ntohs(any.sin_port);
  ::close(socket);
  return port < 65535 ? port : free_ports();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Metrics, AreServedByEachRankOnAPortOfItsOwn) {
  const int port = free_ports();
  run_as_threads(2, [port](Communicator comm) {
    const Metrics metrics(comm, {.port = port});
    EXPECT_EQ(metrics.address(), text("http://127.0.0.1:", port + comm.rank(), "/metrics"));
    metrics.step(0.2);
    const std::string answer = get(port + comm.rank());
    EXPECT_TRUE(has(answer, "HTTP/1.1 200 OK\r\n"));
    EXPECT_TRUE(has(answer, "text/plain; version=0.0.4"));
    EXPECT_TRUE(has(answer, text("weft_steps_total{rank=\"", comm.rank(), "\"} 1\n"))) << answer;
    EXPECT_TRUE(has(answer, text("weft_operations_total{rank=\"", comm.rank(), "\",op=\"all_gather\"} 2\n")));
    EXPECT_TRUE(has(answer, "# TYPE weft_step_seconds histogram\n"));
    EXPECT_TRUE(has(answer, "le=\"+Inf\"} 1\n"));
    EXPECT_FALSE(has(answer, "weft_loss_scale"));  // nothing scales
    EXPECT_TRUE(has(get(port, "/metrics?x=1"), "200 OK"));
    EXPECT_TRUE(has(get(port, "/"), "404 Not Found"));
    EXPECT_TRUE(has(get(port, "/metrics", "POST"), "405 Method Not Allowed"));
    const std::string head = get(port, "/metrics", "HEAD");
    EXPECT_TRUE(has(head, "200 OK") && !has(head, "weft_")) << head;
    Stream stream;
    comm.barrier(stream).wait();
  });
  EXPECT_THROW(Connection{port}, std::runtime_error);
}

TEST(Metrics, AnswerOverOneConnectionAgainAndAgain) {
  const int port = free_ports();
  const Communicator comm = self();
  const Metrics metrics(comm, {.port = port});
  Connection connection(port);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: here\r\n";
  const std::string all = connection.send(request + "\r\n" + request + "Connection: close\r\n\r\n").rest();
  EXPECT_NE(all.find("200 OK"), all.rfind("200 OK"));
}

TEST(Metrics, AreServedWhateverScrapersDo) {
  const int port = free_ports();
  const Communicator comm = self();
  auto metrics = std::make_unique<Metrics>(comm, MetricsOptions{.port = port});
  std::vector<std::unique_ptr<Connection>> silent;  // more than are served at once
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<Connection>(port));
  for (int i = 0; i < 50; ++i) silent[static_cast<std::size_t>(i) * 2]->send("GET /met");
  EXPECT_TRUE(has(get(port), "200 OK"));
  EXPECT_TRUE(has(Connection(port).send("rubbish\r\n\r\n").rest(), "400 Bad Request"));
  EXPECT_TRUE(has(Connection(port).send(std::string(3, '\0') + "\r\n\r\n").rest(), "400 Bad Request"));
  EXPECT_TRUE(has(Connection(port).send("GET / HTTP/1.1\r\nX: " + std::string(20000, 'x')).rest(),
                  "400 Bad Request"));
  for (int i = 0; i < 200; ++i) Connection(port).send("GET /metrics HTTP/1.1\r\n\r\n");  // and is gone
  EXPECT_TRUE(has(get(port), "200 OK"));
  metrics.reset();  // with scrapers connected
  EXPECT_THROW(Connection{port}, std::runtime_error);
  const Metrics again(comm, {.port = port});
  EXPECT_TRUE(has(get(port), "200 OK"));
}

TEST(Metrics, AreServedBesideScrapersThatNeverRead) {
  const int port = free_ports();
  const Communicator comm = self();
  const Metrics metrics(comm, {.port = port});
  std::vector<std::unique_ptr<Connection>> deaf;
  for (int i = 0; i < 40; ++i) {
    deaf.push_back(std::make_unique<Connection>(port));
    deaf.back()->flood();
    EXPECT_TRUE(has(get(port), "200 OK")) << i;
  }
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(has(get(port), "200 OK")) << i;
  EXPECT_TRUE(deaf.front()->is_cut_off());  // the oldest, for another
  EXPECT_TRUE(deaf.back()->is_cut_off());
  EXPECT_TRUE(has(get(port), "200 OK"));
}

TEST(Metrics, AreServedBesideScrapersThatSendForEver) {
  const int port = free_ports();
  const Communicator comm = self();
  const Metrics metrics(comm, {.port = port});
  Connection slow(port);
  slow.send("GET /metrics HTTP/1.1\r\nX: ");
  EXPECT_TRUE(has(get(port), "200 OK"));
  EXPECT_TRUE(slow.is_cut_off());  // a byte now and then renews no deadline
  EXPECT_TRUE(has(get(port), "200 OK"));
}

TEST(Metrics, AreServedAgainWhenTheProcessMayOpenFiles) {
  const int port = free_ports();
  const Communicator comm = self();
  const Metrics metrics(comm, {.port = port});
  EXPECT_TRUE(has(get(port), "200 OK"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next) + 1;  // for the client's own socket alone
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Connection other(port);
  other.send("GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // in which it cannot be accepted
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(has(other.rest(), "200 OK"));
}

TEST(Metrics, OutliveTheirCommunicator) {
  const int port = free_ports();
  std::optional<Metrics> metrics;
  {
    const Communicator comm = self();
    metrics.emplace(comm, MetricsOptions{.port = port});
  }
  EXPECT_TRUE(has(get(port), "weft_info"));
}

TEST(Metrics, RefuseWhatCannotBeServed) {
  const Communicator comm = self();
  const auto refuses = [&](std::initializer_list<std::string> words, const MetricsOptions& options) {
    test::expect_error(ErrorKind::usage, words, [&] { const Metrics metrics(comm, options); });
  };
  const int port = free_ports();
  const Metrics first(comm, {.port = port});
  refuses({text("127.0.0.1:", port), "already in use", "choose another port", "rank 0"}, {.port = port});
  refuses({"192.0.2.1:9400", "assign", "address of this machine"}, {.port = 9400, .bind = "192.0.2.1"});
  refuses({"'somewhere', which is not an IP address", "0.0.0.0"}, {.port = 9400, .bind = "somewhere"});
  refuses({"'127.0.0.1:80', which is not an IP address"}, {.port = 9400, .bind = "127.0.0.1:80"});
  refuses({"port 0", "1 to 65535"}, {.port = 0});
  refuses({"port 70000", "1 to 65535"}, {.port = 70000});
  refuses({"nothing can read", "textfile"}, {});
  refuses({"/no/such/folder/weft-rank-0.prom", "No such file"}, {.textfile = "/no/such/folder"});
  refuses({"every 0 ms"}, {.textfile = testing::TempDir(), .textfile_every = std::chrono::milliseconds(0)});
  refuses({"0 (none) to 127"}, {.port = free_ports(), .account_every = 500});
}

TEST(Metrics, OneRankThatCannotServeIsHeardOfByAll) {
  run_as_threads(2, [](Communicator comm) {
    test::expect_error(ErrorKind::usage, {"65535, and on 65536 for rank 1 of its node"},
                       [&] { const Metrics metrics(comm, {.port = 65535}); });
    test::expect_error(ErrorKind::mismatch, {"account_every is 8 on rank 0 and 9 on rank 1"}, [&] {
      const Metrics metrics(comm, {.textfile = testing::TempDir(), .account_every = 8 + comm.rank()});
    });
    Stream stream;
    comm.barrier(stream).wait();  // the communicator goes on
  });
}

TEST(Metrics, AreWrittenToAFileThatIsWholeAtAnyTime) {
  const fs::path folder = fs::path(testing::TempDir()) / text("weft-textfile-", ::getpid());
  fs::create_directory(folder);
  const Communicator comm = self();
  {
    const Metrics metrics(comm, {.textfile = folder, .textfile_every = std::chrono::milliseconds(1)});
    EXPECT_EQ(metrics.address(), "");
    std::string newest;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (int i = 0; !has(newest, "weft_steps_total{rank=\"0\"} 1\n"); ++i) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << newest;
      if (i == 50) metrics.step(1);
      std::ostringstream all;
      all << std::ifstream(folder / "weft-rank-0.prom").rdbuf();
      newest = std::move(all).str();
      ASSERT_TRUE(newest.starts_with("# HELP weft_info ") && newest.ends_with("\n")) << newest;
      ASSERT_TRUE(has(newest, "weft_skipped_steps_total{rank=\"0\"} 0\n"));
    }
    EXPECT_EQ(newest.substr(0, 40), metrics.text().substr(0, 40));
  }
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove(folder);
}

TEST(Metrics, ThreadsOfTheirsTakeNoSignals) {
  const Communicator comm = self();
  const Metrics metrics(comm, {.port = free_ports(), .textfile = testing::TempDir()});
  int checked = 0;
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == std::to_string(::getpid())) continue;
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      const auto blocked = std::stoull(line.substr(7), nullptr, 16);
      EXPECT_NE(blocked >> 1 & 1, 0U);   // SIGINT
      EXPECT_NE(blocked >> 11 & 1, 0U);  // SIGUSR2
      ++checked;
    }
  }
  EXPECT_EQ(checked, 2);
}

}  // namespace
}  // namespace weft
