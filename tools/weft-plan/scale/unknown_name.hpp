#pragma once
// The error for a name that is none: it lists those that there are, and the nearest one.

#include <string>
#include <string_view>
#include <vector>

namespace weft::scale {

/// @param kind "hardware" @param otherwise what to do where none is near; may be empty. @throws Error (usage), always
[[noreturn]] void refuse_name(const char* kind, std::string_view name, const std::vector<std::string>& names,
                              const std::string& otherwise);

}  // namespace weft::scale
