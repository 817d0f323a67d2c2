#pragma once
// A socket whose calls have deadlines. Asio's blocking calls know none, so each socket runs the asynchronous ones on a context of its
// own. One thread at a time. Slow to compile: for few sources.

#include <string>

#include "collectives/sockets/tcp_asio.hpp"
#include "weft/core/deadline.hpp"

namespace weft::detail {

class TcpSocket {
 public:
  /// Tries the addresses that `host` names one after the other.
  error_code open(const std::string& host, int port, Deadline deadline) {
    tcp::resolver resolver(context_);
    tcp::resolver::results_type endpoints;
    error_code failed = within(deadline, [&](auto done) {
      resolver.async_resolve(host, std::to_string(port),
                             [&endpoints, done](error_code code, const auto& found) {
                               endpoints = found;
                               done(code);
                             });
    });
    if (failed) return failed;
    failed = within(deadline, [&](auto done) {
      asio::async_connect(socket_, endpoints, [done](error_code code, const tcp::endpoint&) { done(code); });
    });
    if (failed) return failed;
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    watch_for_lost_hosts(socket_);
    return failed;
  }

  /// All of the buffer.
  template <class Buffer>
  error_code send(Buffer buffer, Deadline deadline) {
    return within(deadline, [&](auto done) {
      asio::async_write(socket_, buffer, [done](error_code code, std::size_t) { done(code); });
    });
  }
  /// As much as fills the buffer.
  template <class Buffer>
  error_code receive(Buffer buffer, Deadline deadline) {
    return within(deadline, [&](auto done) {
      asio::async_read(socket_, buffer, [done](error_code code, std::size_t) { done(code); });
    });
  }

 private:
  template <class Start>
  error_code within(Deadline deadline, Start start) {
    error_code result;
    start([&result](error_code code) { result = code; });
    context_.restart();
    context_.run_until(deadline.end());
    if (context_.stopped()) return result;
    error_code ignored;
    socket_.close(ignored);
    context_.stop();
    return asio::error::timed_out;
  }

  asio::io_context context_ = new_context();
  tcp::socket socket_{context_};
};

}  // namespace weft::detail
