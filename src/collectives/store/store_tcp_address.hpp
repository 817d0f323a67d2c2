#pragma once
// Where rank 0's store listens. Included by store_tcp_server.hpp alone.

#include <algorithm>
#include <optional>
#include <string>

#include "collectives/sockets/tcp_addresses.hpp"
#include "collectives/store/store_tcp_wire.hpp"
#include "weft/core/log.hpp"

namespace weft::detail::tcp_store {

/// Whether an interface of this machine has it.
inline bool is_own(const asio::ip::address& address) {
  return std::ranges::any_of(interface_addresses(),
                             [&](const InterfaceAddress& one) { return one.address == address; });
}

/// The address that `host` names, if this machine has it and others can reach it. This machine's own name often
/// resolves to 127.0.1.1 here and to the real address elsewhere, and a service address of a cluster belongs to no
/// machine: then there is none.
inline std::optional<asio::ip::address> advertised(asio::io_context& context, const std::string& host) {
  error_code failed;
  for (const auto& entry : tcp::resolver(context).resolve(host, "", failed)) {
    const auto address = entry.endpoint().address();
    if (!address.is_loopback() && is_own(address)) return address;
  }
  return std::nullopt;
}

/// Opens the acceptor on loopback where `host` is that, on the address that `host` names where it is this machine's
/// own, else on `bind`, else on all; an empty `host` names none. @returns where this process finds it. @throws Error
inline std::string listen(tcp::acceptor& acceptor, asio::io_context& context, const std::string& host,
                          std::uint16_t port, const std::string& bind) {
  const ErrorContext rank_0{0, {}, 0};
  error_code failed;
  std::optional<asio::ip::address> chosen;
  if (is_loopback(host)) {
    chosen = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host);
  } else if ((host.empty() || !(chosen = advertised(context, host))) && !bind.empty()) {
    chosen = asio::ip::make_address(bind, failed);
    if (failed)
      throw Error(ErrorKind::usage, text(env::bind.name, "=", bind, " is no address"),
                  "give an IP address of this machine", rank_0);
  }
  tcp::endpoint endpoint(tcp::v6(), port);
  if (chosen) endpoint.address(*chosen);
  acceptor.open(endpoint.protocol(), failed);
  if (failed && !chosen) {  // a kernel without IPv6
    endpoint = tcp::endpoint(tcp::v4(), port);
    acceptor.open(endpoint.protocol(), failed);
  }
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed && !chosen && endpoint.protocol() == tcp::v6())
    acceptor.set_option(asio::ip::v6_only(false), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(tcp::acceptor::max_listen_connections, failed);
  if (failed == asio::error::address_in_use) {
    throw Error(ErrorKind::usage,
                text("port ", port, ", where the ranks are to meet, is in use on this machine"),
                "choose another port, or end the program that listens there", rank_0);
  }
  if (failed) {
    throw Error(
        failed == asio::error::access_denied ? ErrorKind::usage : ErrorKind::system,
        text("cannot listen on ", endpoint.address().to_string(), " port ", port, ": ", failed.message()),
        "choose another port or address", rank_0);
  }
  if (!chosen) {
    const std::string why = host.empty() ? "" : text(", for ", host, " names none of this machine");
    log::info(text("rank 0 listens on port ", acceptor.local_endpoint().port(), " of all addresses", why,
                   "; ", env::bind.name, " narrows it"));
  }
  return chosen ? chosen->to_string() : "127.0.0.1";
}

}  // namespace weft::detail::tcp_store
