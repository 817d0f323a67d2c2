#pragma once
// Writes a flight record where other users may have been before: in /tmp.

#include <string>

namespace weft::detail {

/// Makes the folder, with those above it (mode 0700), and writes the file in it (0600) under another name, then renames
/// it. Follows a symbolic link in the folder's path only if it is this user's or root's, and none at the file.
/// @param own whether the folder must be this user's, with those above it but the first (/tmp). @throws Error (system, usage) with the path
void write_record(const std::string& folder, const std::string& name, const std::string& content, bool own);

}  // namespace weft::detail
