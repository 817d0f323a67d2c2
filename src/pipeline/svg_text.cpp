#include "svg_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace weft::pipeline::detail {

std::string pixels(double value) {
  std::array<char, 64> digits{};
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(),
                                         std::round(value * 100) / 100, std::chars_format::fixed);
  return {digits.data(), end};
}

std::string escaped(std::string_view raw) {
  std::string result;
  for (const char c : raw) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += ' ';  // XML has no other control characters than white space
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace weft::pipeline::detail
