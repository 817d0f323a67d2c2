#pragma once
// NCCL's version numbers, as users and images write them.

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace weft::report {

struct NcclVersion {
  std::array<int, 3> parts{};

  auto operator<=>(const NcclVersion&) const = default;
};

/// Reads "2.18", "2.18.3", "2.28.9-1" and "2.30.7+cuda13.0"; nothing of anything else.
/// @param last_part of a version that is written without it: "2.18" is a line of versions
std::optional<NcclVersion> parse_nccl_version(std::string_view text, int last_part);
std::string name(const NcclVersion& version);
/// @param versions "2.12 and newer", "before 2.19" or "2.27 to 2.29", which ends with the last of 2.29
/// @throws Error (internal) for other words
bool is_among(const NcclVersion& version, std::string_view versions);

/// The newest version whose variables are known.
inline constexpr NcclVersion newest_known{{2, 32, 3}};

}  // namespace weft::report
