#pragma once
// Reads a file that the user names: a table, a profile, a schedule, a record. It may be anything: a folder, a pipe, /dev/zero.

#include <cstddef>
#include <string>

namespace weft::detail {

/// More than any file that weft writes for itself to read.
inline constexpr std::size_t most_input_bytes = std::size_t{64} << 20;

/// All of it. Takes memory for what is there, not for what may be.
/// @param called what errors call it: "--compare run.json"
/// @throws Error (usage) "--compare run.json: cannot read it: Is a directory", "...: it has more than 67108864 bytes"
std::string read_input(const std::string& path, const std::string& called,
                       std::size_t most = most_input_bytes);

}  // namespace weft::detail
