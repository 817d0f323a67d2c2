#pragma once
// A host and a port in one word, as options and variables give them: "node7:9400", "10.0.0.1:80", "[::1]:80". An IPv6 address that a
// port follows stands in brackets. Without brackets, a word with two colons or more is an IPv6 address alone.
//
//   const auto parts = split_host_port(word);                 // none: brackets that do not match
//   const auto port = parts && parts->port ? port_number(*parts->port) : std::nullopt;
//   const std::string again = text(bracketed(parts->host), ':', *port);

#include <optional>
#include <string>
#include <string_view>

#include "weft/core/text.hpp"

namespace weft::detail {

inline constexpr int highest_port = 65535;

struct HostPort {
  std::string_view host;  ///< without brackets; may be empty
  std::optional<std::string_view>
      port;  ///< what follows the colon, whatever it is; none where there is no colon
};

/// Views of `word`. None where a bracket is not closed, or something else than a port follows it.
std::optional<HostPort> split_host_port(std::string_view word);
/// From 1 to 65535; digits alone.
std::optional<int> port_number(std::string_view word);
/// The host as a port may follow it: an IPv6 address in brackets, where it has none yet. Inline, since libweft_metrics.a needs it, and libweft.so
/// hides what is in detail.
inline std::string bracketed(std::string_view host) {
  const bool is_bare = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return is_bare ? text('[', host, ']') : std::string(host);
}

}  // namespace weft::detail
