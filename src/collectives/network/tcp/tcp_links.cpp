// A TCP connection between each two ranks of a world.
//
// Every rank listens, tells the others its addresses, its port and a secret of this job through the rendezvous, and is called by all ranks above
// it, at one address after the other (tcp_calls.hpp): the first that answers is taken. Who calls sends the secret of the rank that it calls, and gets
// its own back, so that neither takes a stranger for a rank. Nothing is encrypted (docs/security.md). The listener closes when all are there.

#include <algorithm>
#include <array>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bootstrap/lookout.hpp"
#include "collectives/diagnosis/agree.hpp"
#include "collectives/network/tcp/tcp_calls.hpp"
#include "collectives/network/tcp/tcp_peers.hpp"
#include "collectives/sockets/tcp_addresses.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::array<char, 8> magic{'w', 'e', 'f', 't', '-', 't', 'c', '1'};
constexpr std::size_t most_strangers =
    128;  // whose connections have proved nothing yet, beside one of each rank; one more, and the oldest goes

constexpr std::chrono::milliseconds to_look_out{100};

struct Hello {
  std::array<char, 8> is_weft = magic;
  std::int64_t rank = 0;
  Challenge secret{};
};
static_assert(sizeof(Hello) == 48);

/// Everything happens in run(), on the caller's thread.
class Caller {
 public:
  Caller(asio::io_context& context, int rank) : context_(context), acceptor_(context), rank_(rank) {}

  std::string introduction(const Environment& environment) {
    const auto addresses = reachable_addresses(environment.value(env::interface));
    Introduction mine{.secret = new_challenge()};
    secret_ = mine.secret;
    const unsigned short port = listen();
    for (const asio::ip::address& address : addresses) mine.endpoints.emplace_back(address, port);
    return mine.note();
  }

  std::map<int, tcp::socket> run(std::vector<Introduction> ranks, Lookout& lookout, Deadline deadline) {
    ranks_ = std::move(ranks);
    last_error_.resize(ranks_.size());
    std::vector<std::size_t> addresses;
    for (int rank = 0; rank < rank_; ++rank)
      addresses.push_back(ranks_[static_cast<std::size_t>(rank)].endpoints.size());
    calls_ = Calls(addresses, Deadline::Clock::now());
    accept();
    while (sockets_.size() + 1 < ranks_.size() && !deadline.passed()) {
      while (const auto next = calls_.next(Deadline::Clock::now())) call(*next);
      context_.restart();
      context_.run_one_until(std::min({deadline.end(), calls_.wakes(), Deadline::in(to_look_out).end()}));
      lookout.check();
    }
    if (sockets_.size() + 1 < ranks_.size()) complain(deadline);
    return std::move(sockets_);
  }

 private:
  struct Attempt {
    explicit Attempt(asio::io_context& context) : socket(context) {}
    tcp::socket socket;
    Hello ours;
    Hello theirs;
  };
  using Ptr = std::shared_ptr<Attempt>;

  unsigned short listen() {
    error_code failed;
    tcp::endpoint endpoint(tcp::v6(), 0);
    acceptor_.open(endpoint.protocol(), failed);
    if (failed) {  // a kernel without IPv6
      endpoint = tcp::endpoint(tcp::v4(), 0);
      acceptor_.open(endpoint.protocol(), failed);
    } else {
      acceptor_.set_option(asio::ip::v6_only(false), failed);
    }
    if (!failed) acceptor_.bind(endpoint, failed);
    if (!failed) acceptor_.listen(tcp::acceptor::max_listen_connections, failed);
    if (failed) throw Error(ErrorKind::system, text("cannot listen for other ranks: ", failed.message()));
    return acceptor_.local_endpoint().port();
  }

  // --- who calls

  void call(Calls::Call call) {
    const auto attempt = std::make_shared<Attempt>(context_);
    outgoing_[call] = attempt;
    const Introduction& called = ranks_[static_cast<std::size_t>(call.rank)];
    attempt->socket.async_connect(called.endpoints[call.address], [this, call, attempt](error_code failed) {
      if (is_over(call, attempt)) return;
      if (failed) return fail(call, failed.message());
      calls_.opened(call, Deadline::Clock::now());
      attempt->ours = {.rank = rank_, .secret = ranks_[static_cast<std::size_t>(call.rank)].secret};
      exchange(attempt, [this, call, attempt](error_code broken) {
        if (is_over(call, attempt)) return;
        if (broken) return fail(call, broken.message());
        const bool is_it = attempt->theirs.is_weft == magic && attempt->theirs.rank == call.rank &&
                           equal(attempt->theirs.secret, secret_);
        is_it ? answered(call.rank, attempt) : fail(call, "something else answers there");
      });
    });
  }
  /// Another address has answered, and this call was closed.
  bool is_over(Calls::Call call, const Ptr& attempt) const {
    const auto found = outgoing_.find(call);
    return found == outgoing_.end() || found->second != attempt;
  }
  /// An interface may come up, and a rank's queue of callers have room again.
  void fail(Calls::Call call, const std::string& why) {
    last_error_[static_cast<std::size_t>(call.rank)] = why;
    outgoing_.erase(call);
    calls_.failed(call, Deadline::Clock::now());
  }
  /// Its other addresses may never: their calls would go on as long as the job.
  void answered(int rank, const Ptr& attempt) {
    take(rank, attempt);
    calls_.answered(rank);
    const auto first = outgoing_.lower_bound({rank, 0});
    const auto last = outgoing_.lower_bound({rank + 1, 0});
    for (auto one = first; one != last; ++one) {
      error_code ignored;
      one->second->socket.close(ignored);
    }
    outgoing_.erase(first, last);
  }
  /// Says hello and hears the answer.
  void exchange(const Ptr& attempt, std::function<void(error_code)> done) {
    asio::async_write(attempt->socket, asio::buffer(&attempt->ours, sizeof(Hello)),
                      [attempt, done](error_code failed, std::size_t) {
                        if (failed) return done(failed);
                        asio::async_read(attempt->socket, asio::buffer(&attempt->theirs, sizeof(Hello)),
                                         [attempt, done](error_code broken, std::size_t) { done(broken); });
                      });
  }

  // --- who is called

  void accept() {
    acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
      if (!failed) {
        error_code ignored;
        if (unproved_.size() == most_strangers + ranks_.size()) unproved_.front()->socket.close(ignored);
        const auto attempt = std::make_shared<Attempt>(context_);
        attempt->socket = std::move(socket);
        unproved_.push_back(attempt);
        hear(attempt);
      }
      accept();
    });
  }
  void hear(const Ptr& attempt) {
    asio::async_read(attempt->socket, asio::buffer(&attempt->theirs, sizeof(Hello)),
                     [this, attempt](error_code failed, std::size_t) {
                       unproved_.remove(attempt);
                       const int rank = static_cast<int>(attempt->theirs.rank);
                       if (failed || attempt->theirs.is_weft != magic || attempt->theirs.rank <= rank_ ||
                           attempt->theirs.rank >= std::ssize(ranks_) || sockets_.contains(rank) ||
                           !equal(attempt->theirs.secret, secret_))
                         return;  // and closes it
                       attempt->ours = {.rank = rank_,
                                        .secret = ranks_[static_cast<std::size_t>(rank)].secret};
                       answer(rank, attempt);
                     });
  }
  // 48 bytes fit what the kernel takes at once: a rank that has been answered has been taken.
  void answer(int rank, const Ptr& attempt) {
    error_code failed;
    asio::write(attempt->socket, asio::buffer(&attempt->ours, sizeof(Hello)), failed);
    if (!failed) take(rank, attempt);
  }

  void take(int rank, const Ptr& attempt) {
    if (sockets_.contains(rank)) return;
    tcp::socket& socket = sockets_.emplace(rank, std::move(attempt->socket)).first->second;
    socket.non_blocking(true);
    socket.set_option(tcp::no_delay(true));
    // A link may be down for two seconds. Of a thousand connections a second's silence would be a thousand packets a second.
    watch_for_lost_hosts(socket, 5, std::clamp(static_cast<int>(ranks_.size()) / 64, 1, 15));
  }

  [[noreturn]] void complain(Deadline deadline) const {
    std::string missing;
    for (int rank = 0; rank < std::ssize(ranks_); ++rank) {
      if (rank == rank_ || sockets_.contains(rank)) continue;
      const auto index = static_cast<std::size_t>(rank);
      missing += missing.empty() ? "" : "; ";
      if (rank > rank_) {
        missing += text("rank ", rank, " did not call");
      } else {
        missing += text("rank ", rank, " was not reached at ", ranks_[index].text_of_endpoints());
        if (!last_error_[index].empty()) missing += text(" (", last_error_[index], ")");
      }
    }
    throw Error(ErrorKind::timeout,
                text("TCP connections between ranks were not made within ", deadline.allowed_seconds(),
                     " s: ", missing, "; rank ", rank_, " listens at ",
                     ranks_[static_cast<std::size_t>(rank_)].text_of_endpoints()),
                text("let every port through between the hosts, or name the network that does with ",
                     env::interface.name),
                {rank_, "connect", 0});
  }

  asio::io_context& context_;
  tcp::acceptor acceptor_;
  const int rank_;
  Challenge secret_{};
  std::vector<Introduction> ranks_;
  std::vector<std::string> last_error_;
  Calls calls_{{}, {}};
  std::map<Calls::Call, Ptr> outgoing_;
  std::map<int, tcp::socket> sockets_;
  std::list<Ptr> unproved_;  // oldest first
};

}  // namespace

TcpLinks connect_by_tcp(Rendezvous& rendezvous, const Environment& environment, Deadline deadline) {
  TcpLinks links{std::unique_ptr<asio::io_context>(new asio::io_context(new_context())), {}};
  Caller caller(*links.context, rendezvous.rank());
  std::vector<Introduction> ranks;
  for (const std::string& note : agree(
           rendezvous, "connect: addresses for TCP", deadline,
           [&] { return caller.introduction(environment); }, "use TCP"))
    ranks.push_back(Introduction::from(note));
  // Before the connections break, which the others would take for the end of this rank.
  links.sockets = or_call_off(rendezvous, [&] {
    Lookout lookout(rendezvous);
    return caller.run(std::move(ranks), lookout, deadline);
  });
  return links;
}

}  // namespace weft::detail
