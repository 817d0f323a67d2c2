#include "weft/core/dtype.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

/// The value of binary16 bits by the definition of IEEE 754.
double half_by_definition(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryBitPatternHasTheValueOfItsDefinition) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const double expected = half_by_definition(half.bits);
    const double actual = static_cast<double>(static_cast<float>(half));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << bits;
    } else {
      EXPECT_EQ(actual, expected) << bits;
      EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
    }
  }
}

TEST(Half, EveryValueSurvivesTheRoundTripAndMidpointsGoToEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto here = static_cast<float>(half_by_definition(static_cast<std::uint16_t>(bits)));
    const auto next = static_cast<float>(half_by_definition(static_cast<std::uint16_t>(bits + 1)));
    const float middle = (here + next) / 2;  // exact: float has 13 more bits
    EXPECT_EQ(Half(here).bits, bits);
    EXPECT_EQ(Half(middle).bits, (bits & 1U) != 0 ? bits + 1 : bits) << bits;
    EXPECT_EQ(Half(std::nextafterf(middle, 0)).bits, bits) << bits;
    EXPECT_EQ(Half(std::nextafterf(middle, HUGE_VALF)).bits, bits + 1) << bits;
    EXPECT_EQ(Half(-here).bits, bits | 0x8000U);
  }
}

TEST(Half, OverflowBecomesInfinityAndNanStaysNan) {
  EXPECT_EQ(Half(65519.0F).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0F).bits, 0x7c00);
  EXPECT_EQ(Half(-HUGE_VALF).bits, 0xfc00);
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::nanf("")))));
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(BFloat16(1.0F).bits, 0x3f80);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f808000U)).bits, 0x3f80);  // midpoint, even below
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f818000U)).bits, 0x3f82);  // midpoint, even above
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x3f808001U)).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), HUGE_VALF);
}

TEST(DataType, SizesAndNamesComeFromTheTable) {
  EXPECT_EQ(size_of(DataType::f32), 4U);
  EXPECT_EQ(size_of(DataType::f64), 8U);
  EXPECT_EQ(size_of(DataType::f16), 2U);
  EXPECT_EQ(size_of(DataType::bf16), 2U);
  EXPECT_EQ(size_of(DataType::i64), 8U);
  EXPECT_EQ(size_of(DataType::u8), 1U);
  EXPECT_EQ(size_of(DataType::i16), 2U);
  EXPECT_EQ(size_of(last_data_type), 8U);
  EXPECT_STREQ(name(static_cast<DataType>(static_cast<int>(last_data_type) + 1)), "unknown");
  EXPECT_STREQ(name(DataType::bf16), "bf16");
  EXPECT_EQ(data_type_of<const float>, DataType::f32);
  EXPECT_FALSE(is_floating(DataType::i32));
  EXPECT_TRUE(is_floating(DataType::f16));
}

}  // namespace
}  // namespace weft
