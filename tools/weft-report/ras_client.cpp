#include "ras_client.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/descriptor.hpp"
#include "core/base/host_port.hpp"
#include "core/base/strings.hpp"
#include "core/files/input_file.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Clock = std::chrono::steady_clock;
using weft::detail::Descriptor;

constexpr const char* where_ras_is =
    "ask on a node of the job, with NCCL 2.24 or later and NCCL_RAS_ENABLE not 0; NCCL_RAS_ADDR of the job "
    "says "
    "another address than localhost:28028";

/// A connection on which every wait ends at the deadline.
class Connection {
 public:
  Connection(const RasAddress& address, Clock::time_point deadline)
      : called_(address.text()), deadline_(deadline) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    if (const int failed = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &list);
        failed != 0)
      throw Error(ErrorKind::usage,
                  text(called_, ": there is no such host, and no such file: ", gai_strerror(failed)),
                  "name HOST:PORT or a file with a saved answer");
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(list, freeaddrinfo);
    int error = 0;
    for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
      error = connect_to(*one);
      if (error == 0) return;
    }
    if (error == ETIMEDOUT) time_out("no connection");
    throw Error(ErrorKind::peer_lost, text(called_, ": nobody answers there: ", std::strerror(error)),
                where_ras_is);
  }

  void send(std::string_view words) {
    while (!words.empty()) {
      const ssize_t sent = ::send(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        words.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        wait(POLLOUT, deadline_);
      } else if (errno != EINTR) {
        lost(std::strerror(errno));
      }
    }
  }

  /// Up to its end, which is not returned. Of what does not end, or has more than a line of the protocol may have, the first part; none where
  /// nothing came.
  std::optional<std::string> line(Clock::time_point until) {
    constexpr std::size_t most = 1024;
    for (;;) {
      const std::size_t end = read_.find('\n');
      if (end != std::string::npos || ended_ || read_.size() > most) {
        std::string taken = read_.substr(0, std::min(end, most));
        read_.erase(0, end == std::string::npos ? read_.size() : end + 1);
        if (taken.ends_with('\r')) taken.pop_back();
        return taken;
      }
      if (!wait(POLLIN, until)) return read_.empty() ? std::nullopt : std::optional(std::exchange(read_, {}));
      receive();
    }
  }

  std::string rest() {
    while (!ended_) {
      if (!wait(POLLIN, deadline_)) time_out(text(read_.size(), " bytes of the answer, and not its end"));
      receive();
      if (read_.size() > detail::most_input_bytes)
        throw Error(
            ErrorKind::usage,
            text(called_, ": what is sent there has more than ", detail::most_input_bytes, " bytes"),
            "an answer has some 500 bytes for each rank of each communicator; ask for the short form: "
            "--text");
    }
    return std::move(read_);
  }

 private:
  int connect_to(const addrinfo& one) {
    socket_.reset(socket(one.ai_family, one.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one.ai_protocol));
    if (socket_.get() < 0) return errno;
    if (connect(socket_.get(), one.ai_addr, one.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    if (!wait(POLLOUT, deadline_)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    return error;
  }

  /// @returns whether something came before that time
  bool wait(short event, Clock::time_point until) {
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(std::min(until, deadline_) - Clock::now());
      if (left.count() <= 0) return false;
      pollfd one{.fd = socket_.get(), .events = event, .revents = 0};
      const int ready = poll(&one, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) lost(std::strerror(errno));
    }
  }

  void receive() {
    std::array<char, 65536> space;
    const ssize_t got = recv(socket_.get(), space.data(), space.size(), 0);
    if (got > 0) read_.append(space.data(), static_cast<std::size_t>(got));
    if (got == 0) ended_ = true;
    if (got < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) lost(std::strerror(errno));
  }

  [[noreturn]] void time_out(const std::string& what) const {
    throw Error(
        ErrorKind::timeout, text(called_, ": in time there came ", what),
        "see whether that process runs (ps -o stat -p PID): one that is stopped gives no answer; ask another "
        "node, or wait longer (--timeout)");
  }
  [[noreturn]] void lost(const char* why) const {
    throw Error(ErrorKind::peer_lost, text(called_, ": the connection broke: ", why),
                "the process may have ended while it answered: see its log");
  }

  std::string called_;
  Clock::time_point deadline_;
  Descriptor socket_;
  std::string read_{};
  bool ended_ = false;
};

[[noreturn]] void refuse(const RasAddress& address, const std::string& greeting) {
  constexpr std::size_t most = 60;
  const std::string said =
      detail::printable(greeting.substr(0, most)) + (greeting.size() > most ? "..." : "");
  throw Error(ErrorKind::usage,
              text(address.text(), ": this is no RAS of NCCL: it ",
                   greeting.empty() ? "says nothing" : text("says \"", said, '"')),
              where_ras_is);
}

/// A connection whose other side has greeted. Every process of the host listens on the port and the system chooses one: where that one is
/// stopped, it is connected, and says nothing. So another connection is made, as NCCL's client does.
Connection greeted(const RasAddress& address, Clock::time_point deadline) {
  int tries = 0;
  for (std::chrono::seconds patience{1};; patience = std::min(2 * patience, std::chrono::seconds{4})) {
    ++tries;
    Connection connection(address, deadline);
    connection.send("CLIENT PROTOCOL 2\n");
    const std::optional<std::string> greeting = connection.line(Clock::now() + patience);
    if (greeting && greeting->starts_with("SERVER PROTOCOL ")) return connection;
    if (greeting) refuse(address, *greeting);
    if (Clock::now() + patience < deadline) continue;
    throw Error(ErrorKind::timeout,
                text(address.text(), ": what listens there says nothing, on ", tries,
                     tries == 1 ? " connection" : " connections"),
                "see whether the processes of the job on that host are stopped (ps -o pid,stat,cmd: T), or "
                "the port is "
                "another program's; ask on another node");
  }
}

}  // namespace

std::string RasAddress::text() const {
  return weft::text(detail::bracketed(host), ':', port);
}

RasAddress parse_ras_address(std::string_view words, const std::string& called) {
  RasAddress address;
  const auto refuse_it = [&](std::string_view why) {
    throw Error(ErrorKind::usage, text(called, " '", words, "': ", why), "give HOST, HOST:PORT or :PORT");
  };
  const auto parts = detail::split_host_port(words);
  if (!parts) refuse_it("a [ has no ], or something else than a port follows it");
  if (!parts->host.empty()) address.host = parts->host;
  if (words.empty() || address.host.find_first_of(" \t\n") != std::string::npos) refuse_it("is no address");
  if (!parts->port) return address;
  if (!detail::port_number(*parts->port)) refuse_it("a port is a whole number from 1 to 65535");
  address.port = *parts->port;
  return address;
}

std::string ask(const RasAddress& address, const AskOptions& options) {
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
  Connection connection = greeted(address, deadline);
  bool json = false;
  if (!options.text_only) {
    connection.send("SET FORMAT json\n");
    json = connection.line(deadline) == "OK";  // before 2.28.7: "ERROR: Unknown command"
  }
  connection.send(json ? "STATUS\n" : "VERBOSE STATUS\n");
  std::string answer = connection.rest();
  if (answer.empty())
    throw Error(ErrorKind::peer_lost,
                text(address.text(), ": the process closed the connection without an answer"),
                "it may be ending: see its log, and ask another node");
  return answer;
}

}  // namespace weft::report
