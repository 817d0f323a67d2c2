#pragma once
// A rank's side of the TCP store. Included by store_tcp.cpp alone.

#include <string>

#include "store_tcp_wire.hpp"
#include "weft/core/deadline.hpp"

namespace weft::detail::tcp_store {

/// Asio's blocking calls know no deadline, so each connection runs the asynchronous ones on a context of its
/// own.
class Connection {
 public:
  Connection() : socket_(context_) {}

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
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    return failed;
  }

  /// The answer's head and value.
  error_code exchange(const std::string& request, Head& head, std::string& value, Deadline deadline) {
    const auto transfer = [](auto done) { return [done](error_code code, std::size_t) { done(code); }; };
    error_code failed = within(
        deadline, [&](auto done) { asio::async_write(socket_, asio::buffer(request), transfer(done)); });
    if (failed) return failed;
    failed = within(deadline, [&](auto done) {
      asio::async_read(socket_, asio::buffer(&head, sizeof(head)), transfer(done));
    });
    if (failed) return failed;
    if (!acceptable(head) || head.key_bytes != 0) return asio::error::operation_not_supported;
    value.resize(head.value_bytes);
    return within(deadline,
                  [&](auto done) { asio::async_read(socket_, asio::buffer(value), transfer(done)); });
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

  asio::io_context context_{1};
  tcp::socket socket_;
};

}  // namespace weft::detail::tcp_store
