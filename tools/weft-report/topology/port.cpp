#include "weft-report/topology/port.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "weft-report/topology/words.hpp"

namespace weft::report::topology {
namespace {

constexpr std::size_t most_ports = 4096;
constexpr std::size_t most_gids = 256;

/// The number at the start of the words; 0: none.
int leading_number(std::string_view words) {
  int value = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
  return error == std::errc() ? value : 0;
}

/// "GID[  3]:  fe80::1, RoCE v2"
bool take_gid(Port& port, std::string_view key, std::string_view value) {
  if (!key.starts_with("GID[") || !key.ends_with(']') || port.gids.size() == most_gids) return false;
  const auto comma = value.find(',');
  port.gids.push_back(
      {.index = leading_number(trimmed(key.substr(4))),
       .address = std::string(value.substr(0, comma)),
       .type = comma == std::string_view::npos ? "" : std::string(trimmed(value.substr(comma + 1)))});
  return true;
}

/// "port:  2". The first one is the port that "hca_id:" began.
bool take_number(std::vector<Port>& ports, std::size_t& at, int number, const Evidence& evidence) {
  if (ports[at].state || ports[at].mtu) {
    if (ports.size() == most_ports) return false;
    const Port& same = ports[at];
    ports.push_back({.host = same.host, .hca = same.hca, .part = same.part, .evidence = evidence});
    at = ports.size() - 1;
  }
  ports[at].number = std::max(number, 1);
  return true;
}

bool take_rate(Port& port, std::string_view key, std::string_view value, const Evidence& evidence) {
  if (key == "active_width") {
    port.lanes = std::clamp(leading_number(value), 0, 64);  // "4X (2)"
    return true;
  }
  double gigabits = 0;  // "50.0 Gbps (64)"
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), gigabits);
  if (error != std::errc() || !std::isfinite(gigabits) || gigabits < 0 || gigabits > 1e6) return false;
  port.lane_gigabits = gigabits;
  port.rate = evidence;
  return true;
}

}  // namespace

bool take_port_line(std::vector<Port>& ports, std::size_t& at, std::string_view line,
                    const Evidence& evidence) {
  const std::string_view words = trimmed(line);
  const auto colon = words.starts_with("GID[") ? words.find("]:") + 1 : words.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  const std::string_view key = words.substr(0, colon);
  const std::string_view value = trimmed(words.substr(colon + 1));
  const std::string_view word = value.substr(0, value.find(' '));
  if (value.empty()) return false;
  if (key == "port") return take_number(ports, at, leading_number(value), evidence);
  Port& port = ports[at];
  if (key == "vendor_part_id") {
    port.part = word;
  } else if (key == "state") {
    port.state = {std::string(word), evidence};
  } else if (key == "max_mtu") {
    port.max_mtu = leading_number(value);
  } else if (key == "active_mtu") {
    port.mtu = {std::string(word), evidence};
  } else if (key == "link_layer") {
    port.link_layer = {std::string(value), evidence};
  } else if (key == "phys_state") {
    port.physical = word;
  } else if (key == "active_width" || key == "active_speed") {
    return take_rate(port, key, value, evidence);
  } else {
    return take_gid(port, key, value);
  }
  return true;
}

}  // namespace weft::report::topology
