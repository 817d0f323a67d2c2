#pragma once
// Rank 0's side of the TCP store. Included by store_tcp.cpp alone.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/store/store_tcp_wire.hpp"
#include "weft/core/log.hpp"

namespace weft::detail::tcp_store {

inline constexpr std::chrono::seconds linger{5};  // of rank 0, for ranks that are still reading

/// Everything happens on one thread of its own; only `known_` is seen from outside.
class Server {
 public:
  Server(const std::string& host, int port) : acceptor_(context_) {
    log::level();  // a WEFT_LOG that makes no sense is to be refused here, not on the thread
    listen(host, static_cast<std::uint16_t>(port));
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  ~Server() {
    {
      std::unique_lock lock(mutex_);
      if (!left_.wait_for(lock, linger, [this] { return known_ == 0; })) {
        log::info(text("rank 0 closes its store while ", known_, " connections to it are open"));
      }
    }
    context_.stop();
    thread_.join();
  }

 private:
  struct Session {
    explicit Session(tcp::socket accepted) : socket(std::move(accepted)), timer(socket.get_executor()) {}
    tcp::socket socket;
    asio::steady_timer timer;  ///< of the get that waits
    Head head;
    std::string body;
    std::string awaited;  ///< its key; empty when none waits
    std::deque<std::string> outbox;
    bool known = false;  ///< has spoken like a client
    bool closed = false;
  };
  using Ptr = std::shared_ptr<Session>;

  void listen(const std::string& host, std::uint16_t port) {
    // On any address unless the name is a loopback one: this machine's own name often resolves to 127.0.1.1
    // here and to the real address elsewhere, and a service address of a cluster belongs to no machine.
    error_code failed;
    const bool loopback = host == "localhost" || own_address(host) == host;
    tcp::endpoint endpoint(tcp::v6(), port);
    if (loopback) endpoint.address(asio::ip::make_address(own_address(host)));
    acceptor_.open(endpoint.protocol(), failed);
    if (failed && !loopback) {  // a kernel without IPv6
      endpoint = tcp::endpoint(tcp::v4(), port);
      acceptor_.open(endpoint.protocol(), failed);
    }
    if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
    if (!failed && !loopback && endpoint.protocol() == tcp::v6())
      acceptor_.set_option(asio::ip::v6_only(false), failed);
    if (!failed) acceptor_.bind(endpoint, failed);
    if (!failed) acceptor_.listen(tcp::acceptor::max_listen_connections, failed);
    if (!failed) return;
    const ErrorContext rank_0{0, {}, 0};
    if (failed == asio::error::address_in_use) {
      throw Error(ErrorKind::usage,
                  text("port ", port, ", where the ranks are to meet, is in use on this machine"),
                  "choose another port, or end the program that listens there", rank_0);
    }
    throw Error(failed == asio::error::access_denied ? ErrorKind::usage : ErrorKind::system,
                text("cannot listen on port ", port, ": ", failed.message()), "choose another port", rank_0);
  }

  void accept() {
    acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
      if (failed == asio::error::operation_aborted) return;
      if (!failed) {
        error_code ignored;
        socket.set_option(tcp::no_delay(true), ignored);
        socket.set_option(asio::socket_base::keep_alive(true), ignored);
        read_head(std::make_shared<Session>(std::move(socket)));
        accept();
      } else {
        // Out of descriptors: trying again at once would spin.
        pause_.expires_after(std::chrono::milliseconds(100));
        pause_.async_wait([this](error_code stopped) {
          if (!stopped) accept();
        });
      }
    });
  }

  // A read is always under way, also while a get waits: it is what notices that the client has gone.
  void read_head(const Ptr& session) {
    asio::async_read(session->socket, asio::buffer(&session->head, sizeof(Head)),
                     [this, session](error_code failed, std::size_t) {
                       if (failed) return close(session);
                       if (!acceptable(session->head)) return refuse(session);
                       introduce(session);
                       session->body.resize(std::size_t{session->head.key_bytes} + session->head.value_bytes);
                       read_body(session);
                     });
  }

  void read_body(const Ptr& session) {
    asio::async_read(session->socket, asio::buffer(session->body),
                     [this, session](error_code failed, std::size_t) {
                       if (failed) return close(session);
                       handle(session, session->body.substr(0, session->head.key_bytes),
                              session->body.substr(session->head.key_bytes));
                       if (!session->closed) read_head(session);
                     });
  }

  void handle(const Ptr& session, const std::string& key, const std::string& value) {
    switch (session->head.word) {
      case Word::hello:
        return reply(session, Word::ok, {});
      case Word::set:
        return set(session, key, value);
      case Word::get:
        return get(session, key, session->head.wait);
      default:
        return refuse(session);
    }
  }

  void set(const Ptr& session, const std::string& key, const std::string& value) {
    const auto [entry, fresh] = values_.try_emplace(key, value);
    if (!fresh && entry->second != value) return reply(session, Word::conflict, {});
    reply(session, Word::ok, {});
    const auto [first, last] = waiting_.equal_range(key);
    std::vector<Ptr> answered;
    for (auto waiter = first; waiter != last; ++waiter) answered.push_back(waiter->second);
    waiting_.erase(first, last);
    for (const Ptr& waiter : answered) {
      waiter->awaited.clear();
      waiter->timer.cancel();
      reply(waiter, Word::ok, value);
    }
  }

  void get(const Ptr& session, const std::string& key, std::int64_t wait) {
    if (!session->awaited.empty()) return refuse(session);  // two requests at a time: no client of ours
    if (const auto found = values_.find(key); found != values_.end())
      return reply(session, Word::ok, found->second);
    if (wait == 0) return reply(session, Word::absent, {});
    session->awaited = key;
    waiting_.emplace(key, session);
    if (wait < 0) return;
    session->timer.expires_after(std::chrono::nanoseconds(wait));
    session->timer.async_wait([this, session, key](error_code cancelled) {
      if (cancelled || session->awaited != key) return;
      stop_waiting(session);
      reply(session, Word::absent, {});
    });
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

  void reply(const Ptr& session, Word word, const std::string& value) {
    if (session->closed) return;
    session->outbox.push_back(message({.word = word}, {}, value));
    if (session->outbox.size() == 1) write(session);
  }

  void write(const Ptr& session) {
    asio::async_write(session->socket, asio::buffer(session->outbox.front()),
                      [this, session](error_code failed, std::size_t) {
                        if (failed) return close(session);
                        session->outbox.pop_front();
                        if (!session->outbox.empty()) write(session);
                      });
  }

  void introduce(const Ptr& session) {
    if (session->known) return;
    session->known = true;
    const std::lock_guard lock(mutex_);
    ++known_;
  }

  void refuse(const Ptr& session) {
    error_code unknown;
    const auto from = session->socket.remote_endpoint(unknown);
    log::warn(text("refused a connection from ", unknown ? "somewhere" : from.address().to_string(),
                   " that does not speak as a rank does"));
    close(session);
  }

  void close(const Ptr& session) {
    if (std::exchange(session->closed, true)) return;
    stop_waiting(session);
    session->timer.cancel();
    error_code ignored;
    session->socket.close(ignored);
    if (!session->known) return;
    const std::lock_guard lock(mutex_);
    if (--known_ == 0) left_.notify_all();
  }

  asio::io_context context_{1};  // before everything that holds a socket or a timer of it
  tcp::acceptor acceptor_;
  asio::steady_timer pause_{context_};
  std::unordered_map<std::string, std::string> values_;
  std::unordered_multimap<std::string, Ptr> waiting_;
  std::mutex mutex_;
  std::condition_variable left_;
  int known_ = 0;  ///< open connections that spoke like a client
  std::thread thread_;
};

}  // namespace weft::detail::tcp_store
