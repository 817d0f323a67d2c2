// Text of values (weft/core/text.hpp), JSON strings, edit distances and advice (core/base/strings.hpp).

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

/// Bytes of the UTF-8 sequence that `rest` begins with; 0 where it begins with none (RFC 3629, section 4, but
/// for surrogates and overlong forms of three and four bytes, which readers mend).
std::size_t utf8_length(std::string_view rest) {
  const auto lead = static_cast<unsigned char>(rest.front());
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length > rest.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(rest[i]) & 0xc0U) != 0x80) return 0;
  }
  return length;
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
    const std::size_t length = utf8_length(raw);
    const char c = raw.front();
    if (length == 0) {
      json += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += c < 0x10 ? "\\u000" : "\\u00";
      json += hex(static_cast<unsigned char>(c));
    } else {
      json += raw.substr(0, length);
    }
    raw.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return json += '"';
}

// Wagner and Fischer's table, of which three rows are kept: row[j] is the distance of the prefix of `a` that was read to the first j
// characters of `b`. Two neighbours that changed places look two rows back.
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
