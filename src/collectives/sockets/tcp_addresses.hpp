#pragma once
// Where this machine can be reached, and how a rank tells the others: its secret, its port and its addresses, as one line of words.

#include <string>
#include <vector>

#include "collectives/sockets/job_token.hpp"
#include "collectives/sockets/tcp_asio.hpp"

namespace weft::detail {

struct InterfaceAddress {
  std::string interface;
  asio::ip::address address;
  bool is_up = false;
  bool is_loopback = false;  ///< the interface
};

/// All that this machine has. @throws Error (system)
std::vector<InterfaceAddress> interface_addresses();

/// Those of interfaces that are up: of those named in `interfaces` ("eth0,eth1"), or of all but loopback; without any, 127.0.0.1.
/// @throws Error (usage) where those that are named have none
std::vector<asio::ip::address> reachable_addresses(const std::string& interfaces);

/// Where a rank can be called, and what it knows its callers by.
struct Introduction {
  Challenge secret{};
  std::vector<tcp::endpoint> endpoints{};

  /// @throws Error (mismatch) for words that no rank of this version says
  static Introduction from(const std::string& note);
  std::string note() const;
  /// "10.0.0.1 port 4711, fd00::1 port 4711"
  std::string text_of_endpoints() const;
};

}  // namespace weft::detail
