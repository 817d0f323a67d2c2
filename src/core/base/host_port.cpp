#include "core/base/host_port.hpp"

#include "core/base/number.hpp"

namespace weft::detail {

std::optional<HostPort> split_host_port(std::string_view word) {
  if (word.starts_with('[')) {
    const std::size_t close = word.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view host = word.substr(1, close - 1);
    const std::string_view rest = word.substr(close + 1);
    if (rest.empty()) return HostPort{host, std::nullopt};
    if (rest.front() != ':') return std::nullopt;
    return HostPort{host, rest.substr(1)};
  }
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos || colon != word.rfind(':')) return HostPort{word, std::nullopt};
  return HostPort{word.substr(0, colon), word.substr(colon + 1)};
}

std::optional<int> port_number(std::string_view word) {
  const auto port = number_of<int>(word);
  return port && *port >= 1 && *port <= highest_port ? port : std::nullopt;
}

}  // namespace weft::detail
