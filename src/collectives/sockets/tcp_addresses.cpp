#include "collectives/sockets/tcp_addresses.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <cstring>
#include <memory>
#include <optional>
#include <sstream>

#include "core/base/strings.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

std::optional<asio::ip::address> address_of(const sockaddr* of_interface) {
  if (of_interface == nullptr) return std::nullopt;
  if (of_interface->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(of_interface);
    return asio::ip::address_v4(ntohl(v4->sin_addr.s_addr));
  }
  if (of_interface->sa_family != AF_INET6) return std::nullopt;
  asio::ip::address_v6::bytes_type bytes;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(of_interface);
  std::memcpy(bytes.data(), &v6->sin6_addr, bytes.size());
  return asio::ip::address_v6(bytes, v6->sin6_scope_id);
}

Challenge secret_from(const std::string& digits) {
  Challenge secret{};
  if (digits.size() != 2 * secret.size() || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Error(ErrorKind::mismatch, "a rank introduces itself without a secret of 64 digits");
  for (std::size_t i = 0; i < secret.size(); ++i)
    secret[i] = static_cast<unsigned char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return secret;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) throw system_error("cannot list this machine's network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    const auto address = address_of(one->ifa_addr);
    if (!address) continue;
    found.push_back({.interface = one->ifa_name,
                     .address = *address,
                     .is_up = (one->ifa_flags & IFF_UP) != 0,
                     .is_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

std::vector<asio::ip::address> reachable_addresses(const std::string& interfaces) {
  const auto is_wanted = [&](const InterfaceAddress& one) {
    if (interfaces.empty()) return !one.is_loopback;
    return ("," + interfaces + ",").find("," + one.interface + ",") != std::string::npos;
  };
  std::vector<asio::ip::address> addresses;
  for (const InterfaceAddress& one : interface_addresses()) {
    const bool is_of_its_link = one.address.is_v6() && one.address.to_v6().is_link_local();
    if (one.is_up && is_wanted(one) && !is_of_its_link) addresses.push_back(one.address);
  }
  if (addresses.empty() && !interfaces.empty())
    throw Error(ErrorKind::usage, text(env::interface.name, "=", interfaces,
                                       " names no interface of this machine that is up and has an address"));
  if (addresses.empty()) addresses.emplace_back(asio::ip::address_v4::loopback());
  return addresses;
}

Introduction Introduction::from(const std::string& note) {
  std::istringstream words(note);
  std::string digits;
  unsigned short port = 0;
  words >> digits >> port;
  Introduction result{secret_from(digits)};
  for (std::string address; words >> address;) {
    error_code failed;
    result.endpoints.emplace_back(asio::ip::make_address(address, failed), port);
    if (failed)
      throw Error(ErrorKind::mismatch,
                  text("a rank introduces itself with '", address, "', which is no address"));
  }
  return result;
}

std::string Introduction::note() const {
  std::string words = text(hex_digits(secret), ' ', endpoints.empty() ? 0 : endpoints.front().port());
  for (const tcp::endpoint& one : endpoints) words += text(' ', one.address().to_string());
  return words;
}

std::string Introduction::text_of_endpoints() const {
  std::string all;
  for (const tcp::endpoint& one : endpoints)
    all += text(all.empty() ? "" : ", ", one.address().to_string(), " port ", one.port());
  return all;
}

}  // namespace weft::detail
