#pragma once
// Numbers and strings as pickles write them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::report::torch_records {

/// Two's complement of any width, lowest byte first: of more than 8 bytes the others may only repeat the sign. Nothing where it is more.
std::optional<std::int64_t> whole_number(std::string_view bytes);
/// A string of protocol 0: Latin-1, with \u0041, \U00000041, \x41, \n, \\ and quotes escaped. In UTF-8, at most twice as long as what was
/// given; nothing where an escape is broken.
std::optional<std::string> unescaped(std::string_view raw);

}  // namespace weft::report::torch_records
