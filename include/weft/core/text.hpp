#pragma once
// Values joined to one line of text, for error messages and log lines.
//
//   text("rank ", 3, " waited ", 0.25, " s")     // "rank 3 waited 0.25 s"
//
// Each value reads as `std::ostream << value` prints it with default settings in the classic locale:
// floating-point numbers have 6 significant digits, a bool is 0 or 1, a std::uint8_t is a character. Strings,
// characters, numbers, pointers and unscoped enumerations are written without a stream, any other type by its
// own operator<<. This header therefore includes no stream header, and every header of weft that throws can
// afford it.
//
// WRONG: text(std::hex, 255);     // each value stands alone and takes no manipulator; write text(hex(255))

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft {

namespace detail {

/// Null appends nothing.
void append(std::string& line, const char* characters);
void append(std::string& line, std::int64_t value);
void append(std::string& line, std::uint64_t value);
void append(std::string& line, double value);
void append(std::string& line, long double value);
void append(std::string& line, const void* address);
/// Lets `print` write `value` to a stream whose text is then appended.
void append_printed(std::string& line, const void* value, void (*print)(std::ostream&, const void*));

template <class Value>
concept Character =
    std::same_as<Value, char> || std::same_as<Value, signed char> || std::same_as<Value, unsigned char>;

template <class Value>
void append_value(std::string& line, const Value& value) {
  if constexpr (std::convertible_to<const Value&, const char*>) {
    append(line, static_cast<const char*>(value));
  } else if constexpr (std::convertible_to<const Value&, std::string_view>) {
    line += std::string_view(value);
  } else if constexpr (Character<Value>) {
    line += static_cast<char>(value);
  } else if constexpr (std::is_enum_v<Value> && std::convertible_to<Value, std::int64_t>) {
    append_value(line, +value);
  } else if constexpr (std::integral<Value>) {
    append(line,
           static_cast<std::conditional_t<std::is_signed_v<Value>, std::int64_t, std::uint64_t>>(value));
  } else if constexpr (std::same_as<Value, long double>) {
    append(line, value);
  } else if constexpr (std::floating_point<Value>) {
    append(line, static_cast<double>(value));
  } else if constexpr (std::convertible_to<Value, const void*>) {
    append(line, static_cast<const void*>(value));
  } else {
    append_printed(line, &value,
                   [](std::ostream& out, const void* one) { out << *static_cast<const Value*>(one); });
  }
}

}  // namespace detail

/// Lower-case hexadecimal digits without a prefix.
std::string hex(std::uint64_t value);

/// The arguments as text, one after the other.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string line;
  (detail::append_value(line, parts), ...);
  return line;
}

}  // namespace weft
