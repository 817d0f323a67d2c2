#pragma once
// Numbers and words as they may stand in an SVG.

#include <string>
#include <string_view>

namespace weft::pipeline::detail {

/// Two decimals of a pixel at most, in every locale.
std::string pixels(double value);
/// Between tags.
std::string escaped(std::string_view raw);

}  // namespace weft::pipeline::detail
