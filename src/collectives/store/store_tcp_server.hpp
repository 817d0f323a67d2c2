#pragma once
// Rank 0's side of the TCP store. Included by store_tcp.cpp alone.
//
// What a stranger can cost: `most_unproved` sockets at a time, for `handshake` each; beyond that the oldest goes, so
// that a rank still gets in. What ranks can cost: `most_keys` keys, `most_stored`
// bytes, and as many in requests under way; a request more is refused and the others go on.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/store/store_tcp_address.hpp"
#include "collectives/store/store_tcp_wire.hpp"
#include "weft/core/log.hpp"

namespace weft::detail::tcp_store {

inline constexpr std::chrono::seconds linger{2};  // of rank 0, for ranks that are still reading
// The same after an error, when all had connected: one may be stopped.
inline constexpr std::chrono::milliseconds brief{100};
inline constexpr std::chrono::seconds handshake{10};  // for a connection to prove that it is a rank's
inline constexpr std::chrono::seconds between_warnings{10};
inline constexpr std::size_t most_unproved = 128;
inline constexpr std::size_t most_keys = std::size_t{1} << 20;
inline constexpr std::size_t most_stored = std::size_t{256} << 20;

/// Everything happens on one thread of its own; only `known_` is seen from outside.
class Server {
 public:
  Server(const std::string& host, int port, const StoreOptions& options)
      : token_(options.token), acceptor_(context_) {
    log::level();  // a WEFT_LOG that makes no sense is to be refused here, not on the thread
    address_ = listen(acceptor_, context_, host, static_cast<std::uint16_t>(port), options.bind);
    port_ = acceptor_.local_endpoint().port();
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  ~Server() {
    {
      std::unique_lock lock(mutex_);
      const bool by_error = std::uncaught_exceptions() > 0 && !listens_;
      const std::chrono::milliseconds wait = by_error ? brief : linger;
      if (!left_.wait_for(lock, wait, [this] { return known_ == 0; })) {
        log::info(text("rank 0 closes its store while ", known_, " connections to it are open"));
      }
    }
    context_.stop();
    thread_.join();
  }

  /// No connection is accepted any more, and those that have proved nothing yet are closed.
  void stop_listening() {
    listens_ = false;
    asio::post(context_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      while (!unproved_.empty()) close(unproved_.front());
    });
  }

  /// Where rank 0 itself finds it.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

 private:
  using Value = std::shared_ptr<const std::string>;  // one copy, however many read it

  struct Session;
  using Ptr = std::shared_ptr<Session>;
  struct Reply {
    Head head;
    Value value;
  };
  struct Session {
    explicit Session(tcp::socket accepted) : socket(std::move(accepted)), timer(socket.get_executor()) {}
    tcp::socket socket;
    asio::steady_timer timer;  ///< of the handshake, then of the get that waits
    std::list<Ptr>::iterator unproved;
    Greeting theirs;
    Greeting ours;
    Proof proof{};
    Head head;
    std::string body;
    std::string awaited;  ///< its key; empty when none waits
    std::deque<Reply> outbox;
    bool reading = false;
    bool known = false;  ///< has proved that it is a rank's
    bool closed = false;
  };

  void accept() {
    acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (failed) {  // out of descriptors: trying again at once would spin
        if (!unproved_.empty()) close(unproved_.front());
        pause_.expires_after(std::chrono::milliseconds(100));
        pause_.async_wait([this](error_code stopped) {
          if (!stopped && acceptor_.is_open()) accept();
        });
        return;
      }
      greet(std::make_shared<Session>(std::move(socket)));
      accept();
    });
  }

  // --- the handshake

  void greet(const Ptr& session) {
    error_code ignored;
    session->socket.set_option(tcp::no_delay(true), ignored);
    watch_for_lost_hosts(session->socket);
    if (unproved_.size() == most_unproved) close(unproved_.front());
    session->unproved = unproved_.insert(unproved_.end(), session);
    session->timer.expires_after(handshake);
    session->timer.async_wait([this, session](error_code cancelled) {
      if (!cancelled && !session->known) close(session);
    });
    receive(session, asio::buffer(session->theirs.magic), [this, session] {
      if (session->theirs.magic != Greeting::right)
        return refuse(session, "it does not speak as a rank does");
      const std::array<asio::mutable_buffer, 2> rest{
          asio::buffer(&session->theirs.rank, sizeof(session->theirs.rank)),
          asio::buffer(session->theirs.challenge)};
      receive(session, rest, [this, session] {
        if (session->theirs.rank < 0 || session->theirs.rank >= most_ranks)
          return refuse(session, "its rank makes no sense");
        session->ours.challenge = new_challenge();
        send(session, asio::buffer(&session->ours, sizeof(Greeting)),
             [this, session] { hear_proof(session); });
      });
    });
  }

  void hear_proof(const Ptr& session) {
    receive(session, asio::buffer(session->proof), [this, session] {
      const Challenge& theirs = session->theirs.challenge;
      const Challenge& ours = session->ours.challenge;
      const bool right = equal(session->proof, prove(token_, Side::rank, theirs, ours));
      session->proof = right ? prove(token_, Side::server, theirs, ours) : wrong_token;
      if (right) introduce(session);  // before the rank hears it: stop_listening() closes those that are not
      send(session, asio::buffer(session->proof), [this, session, right] {
        right ? read_head(session) : refuse(session, "its token is not this job's");
      });
    });
  }

  template <class Buffers, class Next>
  void receive(const Ptr& session, const Buffers& buffers, Next next) {
    asio::async_read(session->socket, buffers, [this, session, next](error_code failed, std::size_t) {
      failed || session->closed ? close(session) : next();
    });
  }
  template <class Buffers, class Next>
  void send(const Ptr& session, const Buffers& buffers, Next next) {
    asio::async_write(session->socket, buffers, [this, session, next](error_code failed, std::size_t) {
      failed || session->closed ? close(session) : next();
    });
  }

  void introduce(const Ptr& session) {
    session->known = true;
    session->timer.cancel();
    unproved_.erase(session->unproved);
    ++connections_[static_cast<int>(session->theirs.rank)];
    const std::lock_guard lock(mutex_);
    ++known_;
  }

  // --- requests

  // While a get waits a read is under way too: it is what notices that the client has gone. While an answer is on its
  // way there is none, so that a client that does not read cannot ask for more.
  void read_head(const Ptr& session) {
    if (session->reading) return;
    session->reading = true;
    receive(session, asio::buffer(&session->head, sizeof(Head)), [this, session] {
      if (!acceptable(session->head)) return refuse(session, "its request makes no sense");
      const std::size_t bytes = std::size_t{session->head.key_bytes} + session->head.value_bytes;
      if (in_flight_ + bytes > most_stored) return refuse(session, "too many bytes are under way");
      if (!with_memory(session, [&] { session->body.resize(bytes); })) return;
      in_flight_ += bytes;
      receive(session, asio::buffer(session->body), [this, session] {
        session->reading = false;
        const bool done = with_memory(session, [&] {
          handle(session, session->body.substr(0, session->head.key_bytes),
                 session->body.substr(session->head.key_bytes));
        });
        if (!done || session->closed) return;
        release(session);
        if (session->outbox.empty()) read_head(session);
      });
    });
  }

  /// A request that needs more memory than there is ends its connection, not rank 0.
  template <class Work>
  bool with_memory(const Ptr& session, Work work) {
    try {
      work();
      return true;
    } catch (const std::bad_alloc&) {
      refuse(session, "rank 0 has no memory left for its request");
      return false;
    }
  }

  void release(const Ptr& session) {
    in_flight_ -= session->body.size();
    std::string().swap(session->body);
  }

  void handle(const Ptr& session, const std::string& key, std::string value) {
    switch (session->head.word) {
      case Word::set:
        return set(session, key, std::move(value));
      case Word::get:
        return get(session, key, session->head.wait);
      case Word::gone:
        return tell_who_is_gone(session);
      default:
        return refuse(session, "its request makes no sense");
    }
  }

  void set(const Ptr& session, const std::string& key, std::string value) {
    if (const auto found = values_.find(key); found != values_.end())
      return reply(session, *found->second == value ? Word::ok : Word::conflict);
    const std::size_t bytes = key.size() + value.size();
    if (values_.size() == most_keys || stored_ + bytes > most_stored) return reply(session, Word::full);
    const Value& stored =
        values_.emplace(key, std::make_shared<const std::string>(std::move(value))).first->second;
    stored_ += bytes;
    reply(session, Word::ok);
    const auto [first, last] = waiting_.equal_range(key);
    std::vector<Ptr> answered;
    for (auto waiter = first; waiter != last; ++waiter) answered.push_back(waiter->second);
    waiting_.erase(first, last);
    for (const Ptr& waiter : answered) {
      waiter->awaited.clear();
      waiter->timer.cancel();
      reply(waiter, Word::ok, stored);
    }
  }

  void get(const Ptr& session, const std::string& key, std::int64_t wait) {
    if (!session->awaited.empty()) return refuse(session, "it asks twice at a time");
    if (const auto found = values_.find(key); found != values_.end())
      return reply(session, Word::ok, found->second);
    if (wait == 0) return reply(session, Word::absent);
    session->awaited = key;
    waiting_.emplace(key, session);
    if (wait < 0) return;
    session->timer.expires_after(std::chrono::nanoseconds(wait));
    session->timer.async_wait([this, session, key](error_code cancelled) {
      if (cancelled || session->awaited != key) return;
      stop_waiting(session);
      reply(session, Word::absent);
    });
  }

  void tell_who_is_gone(const Ptr& session) {
    std::string ranks;
    for (const auto& [rank, open] : connections_) {
      if (open == 0) ranks.append(reinterpret_cast<const char*>(&rank), sizeof(rank));
    }
    reply(session, Word::ok, std::make_shared<const std::string>(std::move(ranks)));
  }

  void stop_waiting(const Ptr& session) {
    const auto [first, last] = waiting_.equal_range(session->awaited);
    for (auto waiter = first; waiter != last; ++waiter) {
      if (waiter->second == session) {
        waiting_.erase(waiter);
        break;
      }
    }
    session->awaited.clear();
  }

  void reply(const Ptr& session, Word word, Value value = nullptr) {
    if (session->closed) return;
    const auto bytes = static_cast<std::uint32_t>(value ? value->size() : 0);
    session->outbox.push_back({{.word = word, .value_bytes = bytes}, std::move(value)});
    if (session->outbox.size() == 1) write(session);
  }

  void write(const Ptr& session) {
    const Reply& next = session->outbox.front();
    const std::array<asio::const_buffer, 2> parts{
        asio::buffer(&next.head, sizeof(Head)),
        next.value ? asio::buffer(*next.value) : asio::const_buffer()};
    send(session, parts, [this, session] {
      session->outbox.pop_front();
      session->outbox.empty() ? read_head(session) : write(session);
    });
  }

  // --- the end of a connection

  void refuse(const Ptr& session, const char* why) {
    ++refused_;
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_warning_) {  // a flood of strangers must not become one of lines
      next_warning_ = now + between_warnings;
      error_code unknown;
      const auto from = session->socket.remote_endpoint(unknown);
      log::warn(text("refused a connection from ", unknown ? "somewhere" : from.address().to_string(), ": ",
                     why, " (", refused_, " so far)"));
    }
    close(session);
  }

  void close(Ptr session) {  // by value: it may be the list's own
    if (std::exchange(session->closed, true)) return;
    stop_waiting(session);
    session->timer.cancel();
    error_code ignored;
    session->socket.close(ignored);
    release(session);
    if (!session->known) {
      unproved_.erase(session->unproved);
      return;
    }
    --connections_[static_cast<int>(session->theirs.rank)];
    const std::lock_guard lock(mutex_);
    if (--known_ == 0) left_.notify_all();
  }

  const std::string token_;
  asio::io_context context_ = new_context();  // before everything that holds a socket or a timer of it
  tcp::acceptor acceptor_;
  std::string address_;
  int port_ = 0;
  asio::steady_timer pause_{context_};
  std::list<Ptr> unproved_;  ///< oldest first
  std::unordered_map<std::string, Value> values_;
  std::unordered_multimap<std::string, Ptr> waiting_;
  std::map<int, int> connections_;  ///< open ones of every rank that has ever had one
  std::size_t stored_ = 0;          ///< bytes of keys and values
  std::size_t in_flight_ = 0;       ///< bytes of requests that are being read
  std::size_t refused_ = 0;
  std::chrono::steady_clock::time_point next_warning_{};
  std::atomic<bool> listens_ = true;
  std::mutex mutex_;
  std::condition_variable left_;
  int known_ = 0;  ///< open connections of ranks
  std::thread thread_;
};

}  // namespace weft::detail::tcp_store
