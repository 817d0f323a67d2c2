#pragma once
// The folder for files that a program needs while it runs: TMPDIR, or /tmp.

#include <string>

namespace weft::tool {

/// @throws Error (usage) where TMPDIR names no folder
std::string temporary_folder();

}  // namespace weft::tool
