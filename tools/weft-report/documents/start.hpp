#pragma once
// What a file is, as its first bytes show it. Names are not looked at: a document may come from standard input.

#include <string_view>

namespace weft::report::documents {

/// Files are told apart by at most so many bytes of theirs.
inline constexpr std::size_t start_bytes = std::size_t{1} << 20;

/// Name of the first element of XML: "system". Empty: it is no XML, or the element begins behind these bytes.
std::string_view xml_root(std::string_view start);

/// Whether the bytes are those of one JSON object or array. JSON objects one a line, which container runtimes write, are lines; so is
/// "[1,0]<stdout>: text".
bool opens_json(std::string_view start);

}  // namespace weft::report::documents
