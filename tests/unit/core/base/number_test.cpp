#include "core/base/number.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace weft::detail {
namespace {

TEST(Number, IsAllOfTheWordOrNone) {
  EXPECT_EQ(number_of<int>("5"), 5);
  EXPECT_EQ(number_of<int>("-5"), -5);
  EXPECT_EQ(number_of<int>("007"), 7);
  EXPECT_EQ(number_of<double>("0.5"), 0.5);
  EXPECT_EQ(number_of<double>("1e3"), 1000);
  EXPECT_EQ(number_of<std::uint32_t>("ff", 16), 255U);
  EXPECT_EQ(number_of<double>("1p4", std::chars_format::hex), 16);
  for (const char* word : {"", " 5", "5 ", "+5", "5x", "x5", "0x5", "5.0", "--5", "-"})
    EXPECT_EQ(number_of<int>(word), std::nullopt) << word;
  for (const char* word : {"", " 5", "5 ", "+5", "5x", "1e", "-", ".", "1.5.2"})
    EXPECT_EQ(number_of<double>(word), std::nullopt) << word;
}

TEST(Number, FitsOrIsNone) {
  EXPECT_EQ(number_of<std::uint8_t>("255"), 255);
  EXPECT_EQ(number_of<std::uint8_t>("256"), std::nullopt);
  EXPECT_EQ(number_of<std::uint8_t>("-1"), std::nullopt);
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(number_of<std::int64_t>(std::to_string(most)), most);
  EXPECT_EQ(number_of<std::int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(number_of<double>("1e999"), std::nullopt);
  EXPECT_TRUE(std::isinf(number_of<double>("inf").value_or(0)));
}

}  // namespace
}  // namespace weft::detail
