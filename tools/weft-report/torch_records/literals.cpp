#include "weft-report/torch_records/literals.hpp"

#include "core/base/number.hpp"

namespace weft::report::torch_records {
namespace {

constexpr std::uint32_t highest_code = 0x10ffff;

void append_utf8(std::string& words, std::uint32_t code) {
  const auto tail = [&](unsigned shift) { words += static_cast<char>(0x80U | (code >> shift & 0x3fU)); };
  if (code < 0x80) {
    words += static_cast<char>(code);
  } else if (code < 0x800) {
    words += static_cast<char>(0xc0U | code >> 6U);
    tail(0);
  } else if (code < 0x10000) {
    words += static_cast<char>(0xe0U | code >> 12U);
    tail(6);
    tail(0);
  } else {
    words += static_cast<char>(0xf0U | (code >> 18U & 7U));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::size_t digits_behind(char letter) {
  switch (letter) {
    case 'u':
      return 4;
    case 'U':
      return 8;
    case 'x':
      return 2;
    default:
      return 0;
  }
}

std::optional<std::uint32_t> code_of(std::string_view digits) {
  const auto code = detail::number_of<std::uint32_t>(digits, 16);
  return code && *code <= highest_code ? code : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view bytes) {
  const bool negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0;
  const char sign = negative ? '\xff' : '\0';
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const char byte = i < bytes.size() ? bytes[i] : sign;
    value |= std::uint64_t{static_cast<unsigned char>(byte)} << (8 * i);
  }
  const bool more = bytes.size() > 8 && bytes.substr(8).find_first_not_of(sign) != std::string_view::npos;
  if (more || (value >> 63U != 0) != negative) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<std::string> unescaped(std::string_view raw) {
  std::string words;
  while (!raw.empty()) {
    const char letter = raw.starts_with('\\') && raw.size() > 1 ? raw[1] : '\0';
    if (const std::size_t digits = digits_behind(letter); digits > 0) {
      const auto code = code_of(raw.substr(2, digits));
      if (raw.size() < 2 + digits || !code) return std::nullopt;
      append_utf8(words, *code);
      raw.remove_prefix(2 + digits);
      continue;
    }
    const bool escaped = letter == '\\' || letter == '\'' || letter == '"' || letter == 'n';
    append_utf8(words,
                letter == 'n' ? std::uint32_t{'\n'} : static_cast<unsigned char>(escaped ? letter : raw[0]));
    raw.remove_prefix(escaped ? 2 : 1);
  }
  return words;
}

}  // namespace weft::report::torch_records
