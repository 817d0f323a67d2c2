#pragma once
// A port of an RDMA device, as ibv_devinfo prints it. With -v it prints width, speed and GIDs, too.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report::topology {

struct Gid {
  int index = 0;
  std::string address{};  ///< "fe80:0000:...", "::ffff:10.1.2.3"
  std::string type{};     ///< "RoCE v2"; older versions state none
};

/// Also an interface of "ip address", whose link layer is "ip".
struct Port {
  std::string host{};  ///< that a tag before the lines names; empty: none
  std::string hca{};   ///< "mlx5_0"
  std::string part{};  ///< the vendor's number of the model: "4129"
  int number = 1;
  Fact state{};              ///< "PORT_ACTIVE", "PORT_DOWN", "PORT_INIT"
  Fact link_layer{};         ///< "InfiniBand", "Ethernet"
  Fact mtu{};                ///< bytes, the active one
  int max_mtu = 0;           ///< bytes; 0: not stated
  int lanes = 0;             ///< of active_width; 0: not stated
  double lane_gigabits = 0;  ///< Gbit/s of active_speed; 0: not stated
  std::string physical{};    ///< "LINK_UP", "POLLING", "DISABLED"; empty: not stated
  std::vector<Gid> gids{};
  Evidence rate{};  ///< the line of active_speed
  Evidence evidence{};
  /// Mbit/s in one direction; 0: not stated.
  std::int64_t megabits() const { return static_cast<std::int64_t>(lanes * lane_gigabits * 1000); }
};

/// Takes a line "key: value" below "hca_id:".
/// @param at the port that the lines are about; a second "port:" adds one, and `at` is then its index. @return false: the line says nothing of it
bool take_port_line(std::vector<Port>& ports, std::size_t& at, std::string_view line,
                    const Evidence& evidence);

}  // namespace weft::report::topology
