#pragma once
// A string in JSON: all that the library itself writes of it.

#include <string>
#include <string_view>

namespace weft::detail {

/// With its quotes.
std::string json_string(std::string_view raw);

}  // namespace weft::detail
