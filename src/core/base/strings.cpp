// Text of values (weft/core/text.hpp); JSON strings, strings for a terminal, edit distances and advice (core/base/strings.hpp).

#include "core/base/strings.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "weft/core/device.hpp"
#include "weft/core/dtype.hpp"
#include "weft/core/text.hpp"

namespace weft {
namespace {

/// What std::to_chars writes of these arguments, which is at most 64 characters.
template <class... Arguments>
void append_chars(std::string& line, Arguments... arguments) {
  std::array<char, 64> chars;
  const auto end = std::to_chars(chars.data(), chars.data() + chars.size(), arguments...).ptr;
  line.append(chars.data(), end);
}

/// A character of UTF-8 (RFC 3629); one byte, and not valid, where there is none.
struct CodePoint {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

CodePoint first_of(std::string_view raw) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(raw[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t count = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xc2 || lead > 0xf4 || raw.size() < count) return {lead};
  char32_t code = lead & (0xffU >> (count + 1));
  for (std::size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {lead};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[count] || code > 0x10ffff || is_surrogate) return {lead};
  return {code, count, true};
}

bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0);
}
/// Marks that have no width and turn the direction of text, line ends that only Unicode knows, and tags.
bool is_hidden(char32_t code) {
  return (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff || code == 0x61c || code == 0xad ||
         code == 0x180e || (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe0fff);
}

std::string padded_hex(char32_t code, std::size_t digits) {
  const std::string hexadecimal = hex(code);
  return std::string(digits - std::min(digits, hexadecimal.size()), '0') + hexadecimal;
}

std::string escape_of(const CodePoint& one) {
  if (one.code == '\n') return "\\n";
  if (one.code == '\r') return "\\r";
  if (!one.valid || one.code < 0x80) return "\\x" + padded_hex(one.code, 2);
  return one.code > 0xffff ? "\\U" + padded_hex(one.code, 8) : "\\u" + padded_hex(one.code, 4);
}

}  // namespace

std::string hex(std::uint64_t value) {
  std::string digits;
  append_chars(digits, value, 16);
  return digits;
}

std::ostream& operator<<(std::ostream& out, Device device) {
  if (device.is_host()) return out << "host";
  return out << "cuda:" << device.index();
}

std::ostream& operator<<(std::ostream& out, DataType dtype) {
  return out << name(dtype);
}

namespace detail {

void append(std::string& line, const char* characters) {
  if (characters != nullptr) line += characters;
}

void append(std::string& line, std::int64_t value) {
  append_chars(line, value);
}

void append(std::string& line, std::uint64_t value) {
  append_chars(line, value);
}

void append(std::string& line, double value) {
  append_chars(line, value, std::chars_format::general, 6);
}

void append(std::string& line, long double value) {
  append_chars(line, value, std::chars_format::general, 6);
}

void append(std::string& line, const void* address) {
  if (address != nullptr) line += "0x";
  line += hex(reinterpret_cast<std::uintptr_t>(address));
}

void append_printed(std::string& line, const void* value, void (*print)(std::ostream&, const void*)) {
  std::ostringstream out;
  print(out, value);
  line += out.view();
}

std::string hex_digits(std::span<const unsigned char> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

std::string json_string(std::string_view raw) {
  std::string json = "\"";
  while (!raw.empty()) {
    const CodePoint one = first_of(raw);
    const char c = raw.front();
    if (!one.valid) {
      json += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += c < 0x10 ? "\\u000" : "\\u00";
      json += hex(static_cast<unsigned char>(c));
    } else {
      json += raw.substr(0, one.bytes);
    }
    raw.remove_prefix(one.bytes);
  }
  return json += '"';
}

std::string printable(std::string_view raw) {
  std::string safe;
  safe.reserve(raw.size());
  while (!raw.empty()) {
    const CodePoint one = first_of(raw);
    if (one.code == '\t') {
      safe += ' ';
    } else if (!one.valid || is_control(one.code) || is_hidden(one.code)) {
      safe += escape_of(one);
    } else {
      safe += raw.substr(0, one.bytes);
    }
    raw.remove_prefix(one.bytes);
  }
  return safe;
}

std::string usual_advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "make room on that disk, or name a place on another";
    case EROFS:
      return "name a place that can be written";
    case EFBIG:
      return "raise the limit of a file's size (ulimit -f)";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return {};
  }
}

// Wagner and Fischer's table, of which three rows are kept: row[j] is the distance of the prefix of `a` that was read to the first j
// characters of `b`. Two neighbours that changed places look two rows back.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), row[j] + 1, last[j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

}  // namespace detail
}  // namespace weft
