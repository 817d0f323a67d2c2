#include "collectives/store/launcher_kvs.hpp"
#include "collectives/store/store_detail.hpp"
#include "core/base/host_port.hpp"
#include "weft/collectives/store.hpp"

#if WEFT_HAS_BOOST

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/sockets/tcp_socket.hpp"
#include "collectives/store/store_tcp_server.hpp"
#include "collectives/store/store_tcp_wire.hpp"

namespace weft {
namespace {

using namespace detail::tcp_store;
using detail::Proof;
using detail::Side;

// For answers that the server gives at once: half of the time to connect, within these. A link that is down for two seconds holds an answer up for
// three: TCP sends again after 0.2, 0.6, 1.4 and 3.0 s.
constexpr std::chrono::milliseconds least_to_answer{3500};
constexpr std::chrono::seconds most_to_answer{30};
// After one that did not come, until the next that does: who has failed tells the others why, and each further word would take all that time.
constexpr std::chrono::milliseconds to_answer_after_silence{500};
// Then the host is looked up again: a restarted pod has a new address.
constexpr std::chrono::nanoseconds attempt = std::chrono::seconds(5);
constexpr std::chrono::seconds shortest_attempt{1};  // where there are several addresses
constexpr std::chrono::seconds to_find_another{1};   // rank 0, where the port is taken

/// A connection to rank 0's server.
class Connection : public detail::TcpSocket {
 public:
  /// Proves that this process knows the token, and sees that the server does.
  /// @returns operation_not_supported where something else than a store of weft listens, no_permission where the
  /// tokens differ
  error_code prove_token(const std::string& token, int rank, Deadline deadline) {
    Greeting ours{.rank = rank, .challenge = detail::new_challenge()};
    Greeting theirs;
    error_code failed = send(asio::buffer(&ours, sizeof(ours)), deadline);
    if (!failed) failed = receive(asio::buffer(theirs.magic), deadline);
    if (failed) return failed;
    if (theirs.magic != Greeting::right) return asio::error::operation_not_supported;
    const std::array<asio::mutable_buffer, 2> rest{asio::buffer(&theirs.rank, sizeof(theirs.rank)),
                                                   asio::buffer(theirs.challenge)};
    failed = receive(rest, deadline);
    if (failed) return failed;
    Proof proof = detail::prove(token, Side::rank, ours.challenge, theirs.challenge);
    failed = send(asio::buffer(proof), deadline);
    if (!failed) failed = receive(asio::buffer(proof), deadline);
    if (failed) return failed;
    const Proof right = detail::prove(token, Side::server, ours.challenge, theirs.challenge);
    return detail::equal(proof, right) ? error_code() : error_code(asio::error::no_permission);
  }

  /// The answer's head and value.
  error_code exchange(const std::string& request, Head& head, std::string& value, Deadline deadline) {
    error_code failed = send(asio::buffer(request), deadline);
    if (!failed) failed = receive(asio::buffer(&head, sizeof(head)), deadline);
    if (failed) return failed;
    if (!acceptable(head) || head.key_bytes != 0) return asio::error::operation_not_supported;
    value.resize(head.value_bytes);
    return receive(asio::buffer(value), deadline);
  }
};

/// How often a rank calls rank 0 at each of its addresses.
enum class Calls : std::uint8_t { until_deadline, once };

class TcpStore final : public Store {
 public:
  /// @param hosts of rank 0, which are called in turn, until `call`; rank 0 itself listens where the first is; port 0: the kernel's choice
  TcpStore(std::vector<std::string> hosts, int port, int rank, Calls calls, Deadline call, Deadline deadline,
           const StoreOptions& options)
      : hosts_(std::move(hosts)),
        port_(port),
        rank_(rank),
        address_(place()),
        token_(options.token),
        to_answer_(
            std::clamp<std::chrono::nanoseconds>(deadline.left() / 2, least_to_answer, most_to_answer)) {
    if (token_.empty() && !is_loopback(hosts_.front())) {
      throw Error(
          ErrorKind::usage,
          text("the ranks are to meet at ", address_,
               " without a token: every process that reaches that port could join"),
          text("set ", env::token.name, " to the same random text on every rank (openssl rand -hex 32), or ",
               env::token_file.name, " to a file that holds it"),
          context());
    }
    if (rank == 0) serve(options);
    if (idle_.empty()) idle_.push_back(connect(calls, call, deadline));
  }

  ~TcpStore() override {
    if (origin_.is_here()) return;
    detail::keep_for_ever(std::move(server_));
    detail::keep_for_ever(std::move(idle_));
  }

  int port() const { return port_; }

  void set(const std::string& key, const std::string& value) override {
    detail::check_entry(key, value.size());
    const auto [word, ignored] =
        ask(message({.word = Word::set}, key, value), Deadline::in(time_to_answer()));
    if (word == Word::full) {
      throw Error(ErrorKind::usage,
                  text("rank 0's store at ", address_, " has no room for key '", key, "' with ", value.size(),
                       " bytes"),
                  text("a store holds ", most_keys, " keys and ", most_stored,
                       " bytes: send data through a communicator"),
                  context());
    }
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
        ask(message({.word = Word::get, .wait = wait}, key, {}), detail::later(deadline, time_to_answer()));
    if (word != Word::ok) return std::nullopt;
    return std::move(value);
  }

  std::vector<int> gone() override {
    const std::string found =
        ask(message({.word = Word::gone}, {}, {}), Deadline::in(time_to_answer())).second;
    std::vector<int> ranks(found.size() / sizeof(int));
    if (!ranks.empty()) std::memcpy(ranks.data(), found.data(), ranks.size() * sizeof(int));
    return ranks;
  }

  void stop_listening() override {
    detail::expect_here(origin_, rank_);
    if (server_ != nullptr) server_->stop_listening();
    const std::lock_guard lock(mutex_);
    listens_ = false;
  }

 private:
  ErrorContext context() const { return {rank_, {}, 0}; }
  std::chrono::nanoseconds time_to_answer() const {
    return is_silent_ ? to_answer_after_silence : to_answer_;
  }
  /// "10.0.0.1:4711", "10.0.0.1 or 10.1.0.1:4711"
  std::string place() const {
    std::string all;
    for (const std::string& host : hosts_) all += all.empty() ? host : " or " + host;
    return text(all, ":", port_);
  }

  /// Where a process of this job has rank 0 there already, the rendezvous tells all ranks that there are two.
  void serve(const StoreOptions& options) {
    try {
      server_ = std::make_unique<Server>(hosts_.front(), port_, options);
      port_ = server_->port();
      address_ = place();
      hosts_ = {server_->address()};
    } catch (const Error&) {
      auto other = std::make_unique<Connection>();
      const Deadline step = Deadline::in(to_find_another);
      if (port_ == 0 || other->open(hosts_.front(), port_, step) || other->prove_token(token_, 0, step))
        throw;
      idle_.push_back(std::move(other));
    }
  }

  /// The host that answers first is the one that is called from then on.
  /// @param whole the time that the error names
  std::unique_ptr<Connection> connect(Calls calls, Deadline deadline, Deadline whole) {
    error_code last = asio::error::timed_out;
    const auto step = std::max<std::chrono::nanoseconds>(attempt / hosts_.size(), shortest_attempt);
    do {
      for (const std::string& host : hosts_) {
        auto connection = std::make_unique<Connection>();
        const Deadline soon = detail::at_most(step, deadline);
        error_code failed = connection->open(host, port_, soon);
        if (!failed) failed = connection->prove_token(token_, rank_, soon);
        if (!failed) {
          if (hosts_.size() > 1) {
            hosts_ = {std::string(host)};
            address_ = place();
          }
          return connection;
        }
        // Where there are several addresses, one may be a stranger's on this network.
        if (last != asio::error::no_permission) last = failed;
      }
      if (hosts_.size() == 1 || last == asio::error::no_permission) refuse_a_stranger(last);
      if (calls == Calls::once) break;
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(std::chrono::milliseconds(50), deadline.left()));
    } while (!deadline.passed());
    is_silent_ = true;
    throw Error(ErrorKind::timeout,
                text("rank 0 did not answer at ", address_, " within ", detail::seconds_text(whole), " (",
                     last.message(), ")"),
                "see whether rank 0 started and its address and port are reachable from here", context());
  }

  void refuse_a_stranger(error_code failed) const {
    if (failed == asio::error::no_permission) {
      throw Error(ErrorKind::usage, text("rank 0 at ", address_, " has another token than this process"),
                  text("give every process of the job the same ", env::token.name,
                       ", and every job a port of its own"),
                  context());
    }
    if (failed == asio::error::operation_not_supported) {
      throw Error(ErrorKind::usage, text("something else than rank 0 of weft listens at ", address_),
                  "choose another port for the ranks to meet", context());
    }
  }

  /// A connection that a waiting get occupies must not hold up a set from another thread: each takes one of
  /// its own. Where rank 0 lets none in any more they take turns, first come first served: ranks that meet through
  /// a store ask for less than a second at a time.
  std::unique_ptr<Connection> take(Deadline deadline) {
    std::unique_lock lock(mutex_);
    if (idle_.empty() && listens_) {
      lock.unlock();
      const Deadline deadline_of_answers = Deadline::in(time_to_answer());
      return connect(Calls::until_deadline, deadline_of_answers, deadline_of_answers);
    }
    const auto mine = waiting_.insert(waiting_.end(), std::this_thread::get_id());
    const auto is_my_turn = [&] { return lost_ || (mine == waiting_.begin() && !idle_.empty()); };
    const bool in_time = returned_.wait_until(lock, deadline.end(), is_my_turn);
    waiting_.erase(mine);
    returned_.notify_all();
    if (lost_ || !in_time) return nullptr;
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  void give_back(std::unique_ptr<Connection> connection, bool whole) {
    const std::lock_guard lock(mutex_);
    if (whole) {
      idle_.push_back(std::move(connection));
    } else if (!listens_) {
      lost_ = true;
    }
    returned_.notify_all();
  }

  std::pair<Word, std::string> ask(const std::string& request, Deadline deadline) {
    detail::expect_here(origin_, rank_);
    auto connection = take(deadline);
    Head head;
    std::string value;
    error_code failed = asio::error::not_connected;  // as one before found out
    if (connection != nullptr) {
      failed = connection->exchange(request, head, value, deadline);
      give_back(std::move(connection), !failed);
      is_silent_ = failed == asio::error::timed_out;
    }
    if (failed == asio::error::timed_out && deadline.passed()) {  // else the kernel gave the connection up
      throw Error(ErrorKind::timeout,
                  text("rank 0 at ", address_, " did not answer within ", detail::seconds_text(deadline)),
                  "see whether rank 0 or its machine is stopped", context());
    }
    if (failed) {
      throw Error(ErrorKind::peer_lost, text("rank 0 at ", address_, " is gone (", failed.message(), ")"),
                  "see why rank 0 ended", context());
    }
    return {head.word, std::move(value)};
  }

  const detail::Origin origin_;
  std::vector<std::string> hosts_;  ///< one after the first connection
  int port_;
  const int rank_;
  std::string address_;  ///< the same from the first connection on
  const std::string token_;
  const std::chrono::nanoseconds to_answer_;
  std::atomic<bool> is_silent_ = false;
  std::unique_ptr<Server> server_;  // before the connections: it waits for them to close
  std::mutex mutex_;
  std::condition_variable returned_;
  bool listens_ = true;                 ///< rank 0 still lets connections in
  bool lost_ = false;                   ///< and after it no longer does: the one that there was broke
  std::list<std::thread::id> waiting_;  ///< first come, first served
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace

std::shared_ptr<Store> make_tcp_store(const std::string& host, int port, int rank, Deadline deadline,
                                      const StoreOptions& options) {
  if (host.empty() || port < 1 || port > detail::highest_port) {
    throw Error(ErrorKind::usage, text("ranks cannot meet at '", host, "' port ", port),
                "give a host name or address and a port from 1 to 65535");
  }
  return std::make_shared<TcpStore>(std::vector{host}, port, rank, Calls::until_deadline, deadline, deadline,
                                    options);
}

namespace detail {

ListeningStore listen_tcp_store(const std::string& host, Deadline deadline, const StoreOptions& options) {
  const auto store =
      std::make_shared<TcpStore>(std::vector{host}, 0, 0, Calls::until_deadline, deadline, deadline, options);
  return {store, store->port()};
}

std::shared_ptr<Store> call_tcp_store(std::vector<std::string> hosts, int port, int rank, Deadline call,
                                      Deadline deadline, const StoreOptions& options) {
  return std::make_shared<TcpStore>(std::move(hosts), port, rank, Calls::once, call, deadline, options);
}

}  // namespace detail
}  // namespace weft

#else

namespace weft {

std::shared_ptr<Store> make_tcp_store(const std::string& host, int port, int /*rank*/, Deadline /*deadline*/,
                                      const StoreOptions& /*options*/) {
  throw Error(ErrorKind::usage,
              text("this build of weft has no Boost and cannot meet at tcp://", host, ":", port),
              "ranks of one machine can meet at file://PATH, others through MPI");
}

}  // namespace weft

#endif
