#include "weft-report/env/nccl_version.hpp"

#include <algorithm>
#include <charconv>

#include "weft/core/error.hpp"

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

bool is_among(const NcclVersion& version, std::string_view versions) {
  constexpr std::string_view newer = " and newer";
  constexpr std::string_view before = "before ";
  constexpr std::string_view to = " to ";
  const auto bound = [&](std::string_view words, int last_part) {
    const auto parsed = parse_nccl_version(words, last_part);
    if (!parsed) throw Error(ErrorKind::internal, text("'", versions, "' names no versions of NCCL"));
    return *parsed;
  };
  if (versions.ends_with(newer))
    return version >= bound(versions.substr(0, versions.size() - newer.size()), 0);
  if (versions.starts_with(before)) return version < bound(versions.substr(before.size()), 0);
  const std::size_t at = std::min(versions.find(to), versions.size());
  const std::string_view last = versions.substr(std::min(at + to.size(), versions.size()));
  return version >= bound(versions.substr(0, at), 0) && version <= bound(last, 999);
}

}  // namespace weft::report
