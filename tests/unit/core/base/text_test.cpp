#include "weft/core/text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <climits>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <thread>

#include "core/base/strings.hpp"
#include "weft/core/device.hpp"
#include "weft/core/dtype.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

/// What text() must be equal to.
template <class... Parts>
std::string streamed(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
void expect_as_streamed(const Parts&... parts) {
  EXPECT_EQ(text(parts...), streamed(parts...));
}

template <class Integer>
void expect_integers_as_streamed() {
  std::mt19937_64 random(sizeof(Integer));
  expect_as_streamed(Integer{0}, std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max());
  for (int i = 0; i < 2000; ++i) {
    expect_as_streamed(static_cast<Integer>(random() >> (random() % 64)));
    expect_as_streamed(static_cast<Integer>(-static_cast<Integer>(random() >> (random() % 64))));
  }
}

TEST(Text, IntegersReadAsAStreamPrintsThem) {
  expect_integers_as_streamed<short>();
  expect_integers_as_streamed<unsigned short>();
  expect_integers_as_streamed<int>();
  expect_integers_as_streamed<unsigned>();
  expect_integers_as_streamed<long>();
  expect_integers_as_streamed<unsigned long>();
  expect_integers_as_streamed<long long>();
  expect_integers_as_streamed<unsigned long long>();
}

TEST(Text, CharactersAndBytesAreCharacters) {
  for (int c = CHAR_MIN; c <= UCHAR_MAX; ++c) {
    expect_as_streamed(static_cast<char>(c), static_cast<signed char>(c), static_cast<unsigned char>(c));
  }
  expect_as_streamed(std::uint8_t{65}, std::int8_t{66});
}

template <class Float>
void expect_floats_as_streamed() {
  using Limits = std::numeric_limits<Float>;
  for (const Float value :
       {Float{0},           Limits::min(),       Limits::max(),  Limits::denorm_min(), Limits::epsilon(),
        Limits::infinity(), Limits::quiet_NaN(), Float(0.1L),    Float(1) / 3,         Float(2) / 3,
        Float(99999.95L),   Float(999999.5L),    Float(0.0001L), Float(0.00001L),      Float(123456.5L),
        Float(1234565),     Float(100000),       Float(1000000), Float(1e5L),          Float(1e6L),
        Float(0.5L),        Float(2.5L),         Float(1e21L),   Float(3.0L)}) {
    expect_as_streamed(value);
    expect_as_streamed(-value);
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const Float digits = static_cast<Float>(static_cast<std::int64_t>(random())) / 1000;
    expect_as_streamed(std::ldexp(digits, static_cast<int>(random() % 200) - 120));
    expect_as_streamed(static_cast<Float>(random() % 100000000) / 1000);   // figures as messages have them
    expect_as_streamed(static_cast<Float>(random() % 20000000 + 5) / 10);  // ties of the sixth digit
  }
}

TEST(Text, FloatsHaveSixDigitsAsInAStream) {
  expect_floats_as_streamed<float>();
  expect_floats_as_streamed<double>();
  expect_floats_as_streamed<long double>();
}

TEST(Text, EveryPatternOfBitsOfADoubleReadsAsInAStream) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 50000; ++i) {
    expect_as_streamed(std::bit_cast<double>(random()));
    expect_as_streamed(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  }
}

TEST(Text, StringsBoolsAndPointersReadAsInAStream) {
  const std::string string = "a string";
  const char* const pointer = "characters";
  char array[8] = "array";
  const int number = 3;
  const void* const nowhere = nullptr;
  expect_as_streamed(string, std::string_view(string).substr(2), pointer, array, "literal", "",
                     std::string());
  expect_as_streamed(string.c_str(), std::string("with\0nul", 8));
  expect_as_streamed(true, false, std::vector<bool>{true}[0] ? true : false);
  expect_as_streamed(&number, static_cast<const void*>(&array), nowhere, static_cast<void*>(array));
  expect_as_streamed(reinterpret_cast<const void*>(~std::uintptr_t{0}));
  EXPECT_EQ(text("before ", static_cast<const char*>(nullptr), "after"), "before after");
  EXPECT_EQ(text(), "");
}

enum Unscoped { none, one, negative = -5 };
enum class Scoped { one = 1 };
std::ostream& operator<<(std::ostream& out, Scoped value) {
  return out << "scoped " << static_cast<int>(value);
}
struct Printed {
  int value;
  friend std::ostream& operator<<(std::ostream& out, const Printed& printed) {
    return out << "<" << printed.value << ">";
  }
};

TEST(Text, OtherTypesArePrintedByTheirOwnOperator) {
  expect_as_streamed(none, one, negative, Scoped::one, Printed{7}, "between", Printed{-8});
  expect_as_streamed(Device::host(), " and ", Device::cuda(3), ": ", DataType::bf16, ", ", DataType::u8);
  expect_as_streamed(std::this_thread::get_id());
  EXPECT_EQ(text(Device::cuda(3), " has ", DataType::f16), "cuda:3 has f16");
}

TEST(Text, AGlobalLocaleDoesNotChangeNumbers) {
  class Grouped : public std::numpunct<char> {
    std::string do_grouping() const override { return "\3"; }
    char do_decimal_point() const override { return ','; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Grouped));
  const std::string line = text(1234567, " and ", 0.5);
  std::locale::global(before);
  EXPECT_EQ(line, "1234567 and 0.5");
}

TEST(Hex, HasNoPrefix) {
  EXPECT_EQ(hex(0), "0");
  EXPECT_EQ(hex(0xdeadbeef01234567U), "deadbeef01234567");
}

TEST(JsonString, EscapesWhatJsonReserves) {
  EXPECT_EQ(detail::json_string("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(detail::json_string(std::string_view("\0\x01\x0f\x10\x1f\n", 6)),
            R"("\u0000\u0001\u000f\u0010\u001f\u000a")");
  EXPECT_EQ(detail::json_string("\xc3\xb6\xf6"), "\"\xc3\xb6\\ufffd\"");
  EXPECT_EQ(detail::json_string(""), "\"\"");
}

TEST(PrintableText, ShowsWhatATerminalWouldActOn) {
  using detail::printable;
  EXPECT_EQ(printable("größer → µs, \U0001F600 \\ \""), "größer → µs, \U0001F600 \\ \"");
  EXPECT_EQ(printable("a\tb\r\nc\x1b[0m\x7f"), "a b\\r\\nc\\x1b[0m\\x7f");
  EXPECT_EQ(printable(std::string_view("nul\0", 4)), "nul\\x00");
  EXPECT_EQ(printable("\u0080\u009b\u00a0"), "\\u0080\\u009b\u00a0");
  EXPECT_EQ(printable("\u061c\u200b\u200f\u2028\u202e\u2066\ufeff\U000e0041"),
            "\\u061c\\u200b\\u200f\\u2028\\u202e\\u2066\\ufeff\\U000e0041");
  // Cut off, overlong, surrogates, beyond the last character.
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80"),
            "\\xff\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
}

// All characters, and all pairs of bytes: what is shown is valid, has no control character, and stays as it is.
TEST(PrintableText, IsSafeAndEscapedOnce) {
  const auto expect_safe = [](const std::string& raw) {
    const std::string shown = detail::printable(raw);
    for (const char c : shown) ASSERT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << shown;
    ASSERT_EQ(detail::printable(shown), shown);
    ASSERT_EQ(detail::json_string(shown).find("ufffd"), std::string::npos) << shown;
  };
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second)
      expect_safe(std::string{static_cast<char>(first), static_cast<char>(second), 'z'});
  }
  for (std::uint32_t code = 0x80; code <= 0x10ffff; code += code < 0x3000 ? 1 : 61) {
    std::string raw;
    const auto tail = [&](unsigned shift) { raw += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
    if (code < 0x800) {
      raw += static_cast<char>(0xc0 | (code >> 6));
    } else if (code < 0x10000) {
      raw += static_cast<char>(0xe0 | (code >> 12));
      tail(6);
    } else {
      raw += static_cast<char>(0xf0 | (code >> 18));
      tail(12);
      tail(6);
    }
    tail(0);
    expect_safe(raw);
  }
}

TEST(PrintableText, IsWhatErrorsAndLinesOfTheLogHave) {
  const Error error(ErrorKind::usage, "tensor \x1b[2J", "rename\nit", {2, "load\x7f", 3});
  EXPECT_STREQ(error.what(), "weft: rank 2: load\\x7f #3: tensor \\x1b[2J; rename\\nit");
  EXPECT_EQ(error.problem(), "tensor \x1b[2J");
  std::string heard;
  log::set_sink([&](log::Level, std::string_view line) { heard = line; });
  log::error("a\nb\xff");
  log::set_sink({});
  EXPECT_EQ(heard, "a\\nb\\xff");
}

TEST(NearestName, IsTheOneWithTheFewestChanges) {
  EXPECT_EQ(detail::edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(detail::edit_distance("", "abc"), 3U);
  EXPECT_EQ(detail::edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(detail::edit_distance("bf61", "bf16"), 1U);
  EXPECT_EQ(detail::edit_distance("ca", "abc"), 3U);
  const std::array<std::string_view, 3> names{"power_sgd", "top_k", "int8"};
  EXPECT_EQ(detail::nearest_name(names, "powersgd"), "power_sgd");
  EXPECT_EQ(detail::nearest_name(names, "topk"), "top_k");
}

TEST(NearestName, IsNoneWhereNoneIsNear) {
  const std::array<std::string_view, 3> names{"power_sgd", "1f1b", "int8"};
  EXPECT_EQ(detail::nearest_name(names, "foo"), std::nullopt);
  EXPECT_EQ(detail::nearest_name(names, "1f"), std::nullopt);
  EXPECT_EQ(detail::nearest_name(names, ""), std::nullopt);
  EXPECT_EQ(detail::nearest_name(names, "power"), std::nullopt);
  EXPECT_EQ(detail::nearest_name(std::array<std::string_view, 0>(), "int8"), std::nullopt);
  EXPECT_EQ(detail::listed(names), "power_sgd, 1f1b, int8");
}

}  // namespace
}  // namespace weft
