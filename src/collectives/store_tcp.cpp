#include "store_detail.hpp"
#include "weft/collectives/store.hpp"

#if WEFT_HAS_BOOST

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "store_tcp_connection.hpp"
#include "store_tcp_server.hpp"

namespace weft {
namespace {

using namespace detail::tcp_store;

constexpr std::chrono::seconds patience{30};  // for answers that the server gives at once
constexpr std::chrono::seconds attempt{
    5};  // then the host is looked up again: a restarted pod has a new address

class TcpStore final : public Store {
 public:
  TcpStore(const std::string& host, int port, int rank, Deadline deadline)
      : host_(rank == 0 ? own_address(host) : host),
        port_(port),
        rank_(rank),
        address_(text(host, ":", port)) {
    if (rank == 0) server_ = std::make_unique<Server>(host, port);
    idle_.push_back(connect(deadline));
  }

  void set(const std::string& key, const std::string& value) override {
    detail::check_entry(key, value.size());
    const auto [word, ignored] = ask(message({.word = Word::set}, key, value), Deadline::in(patience));
    if (word == Word::conflict) {
      throw Error(ErrorKind::usage, text("key '", key, "' was set before to another value at ", address_),
                  "give every run a port of its own", context());
    }
  }

  std::optional<std::string> get(const std::string& key, Deadline deadline) override {
    detail::check_entry(key, 0);
    const bool never = deadline.end() == Deadline::Clock::time_point::max();
    const std::int64_t wait = never ? -1 : deadline.left().count();
    auto [word, value] =
        ask(message({.word = Word::get, .wait = wait}, key, {}), detail::later(deadline, patience));
    if (word != Word::ok) return std::nullopt;
    return std::move(value);
  }

 private:
  ErrorContext context() const { return {rank_, {}, 0}; }

  std::unique_ptr<Connection> connect(Deadline deadline) const {
    std::string last = "no attempt was made";
    do {
      auto connection = std::make_unique<Connection>();
      const Deadline step = detail::at_most(attempt, deadline);
      error_code failed = connection->open(host_, port_, step);
      Head head;
      std::string ignored;
      if (!failed) failed = connection->exchange(message({.word = Word::hello}, {}, {}), head, ignored, step);
      if (!failed) return connection;
      if (failed == asio::error::operation_not_supported) {
        throw Error(ErrorKind::usage, text("something else than rank 0 of weft listens at ", address_),
                    "choose another port for the ranks to meet", context());
      }
      last = failed.message();
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(std::chrono::milliseconds(50), deadline.left()));
    } while (!deadline.passed());
    throw Error(ErrorKind::timeout,
                text("rank 0 did not answer at ", address_, " within ", detail::seconds_text(deadline), " (",
                     last, ")"),
                "see whether rank 0 started and its address and port are reachable from here", context());
  }

  /// A connection that a waiting get occupies must not hold up a set from another thread: each takes one of
  /// its own.
  std::unique_ptr<Connection> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto connection = std::move(idle_.back());
        idle_.pop_back();
        return connection;
      }
    }
    return connect(Deadline::in(patience));
  }

  std::pair<Word, std::string> ask(const std::string& request, Deadline deadline) {
    auto connection = take();
    Head head;
    std::string value;
    const error_code failed = connection->exchange(request, head, value, deadline);
    if (failed == asio::error::timed_out) {
      throw Error(ErrorKind::timeout,
                  text("rank 0 at ", address_, " did not answer within ", detail::seconds_text(deadline)),
                  "see whether rank 0 or its machine is stopped", context());
    }
    if (failed) {
      throw Error(ErrorKind::peer_lost, text("rank 0 at ", address_, " is gone (", failed.message(), ")"),
                  "see why rank 0 ended", context());
    }
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
    return {head.word, std::move(value)};
  }

  const std::string host_;
  const int port_;
  const int rank_;
  const std::string address_;
  std::unique_ptr<Server> server_;  // before the connections: it waits for them to close
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace

std::shared_ptr<Store> make_tcp_store(const std::string& host, int port, int rank, Deadline deadline) {
  if (host.empty() || port < 1 || port > 65535) {
    throw Error(ErrorKind::usage, text("ranks cannot meet at '", host, "' port ", port),
                "give a host name or address and a port from 1 to 65535");
  }
  return std::make_shared<TcpStore>(host, port, rank, deadline);
}

}  // namespace weft

#else

namespace weft {

std::shared_ptr<Store> make_tcp_store(const std::string& host, int port, int /*rank*/,
                                      Deadline /*deadline*/) {
  throw Error(ErrorKind::usage,
              text("this build of weft has no Boost and cannot meet at tcp://", host, ":", port),
              "ranks of one machine can meet at file://PATH, others through MPI");
}

}  // namespace weft

#endif
