#include "compression/codecs/block_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "unit/compression/some_gradients.hpp"

namespace weft::detail {
namespace {

struct Format {
  BlockFormat format;
  int mantissa;         ///< bits of a number in floating point; 0: an integer
  int least_exponent;   ///< exponent of the least subnormal number
  int top;              ///< the power of two that a block's largest magnitude is taken to
  double most = 1e300;  ///< largest magnitude of an integer format
};
constexpr std::array formats{
    Format{BlockFormat::f16, 10, -24, 14},     Format{BlockFormat::e4m3, 3, -9, 7},
    Format{BlockFormat::e5m2, 2, -16, 14},     Format{BlockFormat::i8, 0, 0, 6, 127},
    Format{BlockFormat::i16, 0, 0, 14, 32767},
};

double rounded(double value, const Format& format) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const int step = format.mantissa == 0 ? 0 : std::max(exponent - 1 - format.mantissa, format.least_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
}

/// The expected decoded block, computed in f64 without bit operations.
std::vector<float> reference(std::span<const float> block, const Format& format) {
  double largest = 0;
  for (const float value : block) largest = std::max(largest, std::abs(static_cast<double>(value)));
  int exponent = 0;
  std::frexp(largest, &exponent);
  exponent = largest == 0 ? lowest_exponent : std::max(exponent - 1, lowest_exponent);
  if (std::ldexp(largest, format.top - exponent) > format.most) ++exponent;
  std::vector<float> decoded;
  for (const float value : block) {
    const double scaled = std::ldexp(static_cast<double>(value), format.top - exponent);
    decoded.push_back(static_cast<float>(std::ldexp(rounded(scaled, format), exponent - format.top)));
  }
  return decoded;
}

std::vector<std::byte> encoded(const BlockKernel& kernel, BlockFormat format, std::span<const float> values,
                               Rounding rounding = Rounding::nearest) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> code(static_cast<std::size_t>(bytes_of(format, count)));
  kernel.encode(format, rounding, code.data(), values.data(), count, {7, 5});
  return code;
}

std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> words;
  for (const float value : values) words.push_back(std::bit_cast<std::uint32_t>(value));
  return words;
}

TEST(BlockKernel, RoundsAsTheDefinitionOfEachFormatSays) {
  for (const Format& format : formats) {
    for (const test::Kind& kind : test::ordinary_and_extreme(1000)) {
      const auto code = encoded(block_kernel(), format.format, kind.values);
      std::vector<float> decoded(kind.values.size());
      block_kernel().decode(format.format, Into::set, decoded.data(), code.data(), 1000);
      for (std::size_t begin = 0; begin < 1000; begin += 256) {
        const std::size_t length = std::min<std::size_t>(256, 1000 - begin);
        const auto expected = reference(std::span(kind.values).subspan(begin, length), format);
        for (std::size_t i = 0; i < length; ++i)
          ASSERT_EQ(decoded[begin + i], expected[i])
              << kind.name << ", element " << begin + i << ", " << static_cast<int>(format.format) << ": "
              << kind.values[begin + i];
      }
    }
  }
}

TEST(BlockKernel, GivesTheBitsOfPlainLoops) {
  std::vector<test::Kind> kinds = test::ordinary_and_extreme(1000);
  std::vector<float> any(1000);
  std::mt19937 engine(4);
  for (float& value : any) value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
  kinds.push_back({"any bits", any});
  for (const test::Kind& kind : kinds) {
    for (const std::size_t count : {1U, 5U, 31U, 255U, 256U, 257U, 1000U}) {
      const std::span<const float> values = std::span(kind.values).first(count);
      const auto size = static_cast<std::int64_t>(count);
      EXPECT_EQ(block_kernel().largest(values.data(), size),
                plain_block_kernel().largest(values.data(), size));
      for (const BlockFormat format :
           {BlockFormat::f16, BlockFormat::bf16, BlockFormat::e4m3, BlockFormat::e5m2, BlockFormat::i8,
            BlockFormat::i4, BlockFormat::e2m1, BlockFormat::i16}) {
        for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
          const auto code = encoded(block_kernel(), format, values, rounding);
          ASSERT_EQ(code, encoded(plain_block_kernel(), format, values, rounding))
              << kind.name << ", " << count << ", " << static_cast<int>(format);
          for (const Into into : {Into::set, Into::add, Into::subtract}) {
            std::vector<float> wide(any.begin(), any.begin() + size);
            for (float& value : wide) value = std::isfinite(value) ? value : 1;
            std::vector<float> plain = wide;
            block_kernel().decode(format, into, wide.data(), code.data(), size);
            plain_block_kernel().decode(format, into, plain.data(), code.data(), size);
            if (format == BlockFormat::bf16 && kind.name == "any bits") {  // NaN of two kinds may meet
              for (std::size_t i = 0; i < count; ++i)
                ASSERT_TRUE(wide[i] == plain[i] || (wide[i] != wide[i] && plain[i] != plain[i]));
            } else {
              ASSERT_EQ(bits(wide), bits(plain)) << kind.name << ", " << count;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::detail
