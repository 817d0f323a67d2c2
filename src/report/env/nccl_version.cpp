#include "report/env/nccl_version.hpp"

#include <charconv>

#include "weft/core/text.hpp"

namespace weft::report {

std::optional<NcclVersion> parse_nccl_version(std::string_view text, int last_part) {
  NcclVersion version;
  version.parts[2] = last_part;
  text = text.substr(0, text.find_first_of("-+"));
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < version.parts.size(); ++i) {
    const auto [after, error] = std::from_chars(at, end, version.parts[i]);
    if (error != std::errc() || version.parts[i] < 0 || version.parts[i] > 999) return std::nullopt;
    if (after == end) return i == 0 ? std::nullopt : std::optional(version);
    if (*after != '.') return std::nullopt;
    at = after + 1;
  }
  return std::nullopt;
}

std::string name(const NcclVersion& version) {
  const auto& [major, minor, patch] = version.parts;
  return patch == 999 ? text(major, '.', minor) : text(major, '.', minor, '.', patch);
}

}  // namespace weft::report
