#include "collectives/kernels/reduce_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace weft::detail {
namespace {

// Streamed results are those of plain stores, whatever the length and wherever the destination lies.
TEST(ReduceKernel, StreamsTheSameBits) {
  for (const std::size_t count : {1U, 15U, 64U, 1000U, 5003U}) {
    for (const std::size_t shift : {0U, 1U, 4U, 16U}) {
      alignas(128) std::array<float, 6000> a{};
      alignas(128) std::array<float, 6000> b{};
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        a[shift + i] = 0.1F * static_cast<float>(i);
        b[shift + i] = 3.3F - static_cast<float>(i);
        expected[i] = (a[shift + i] + b[shift + i]) / 2.0F;
      }
      auto* first = reinterpret_cast<std::byte*>(&a[shift]);
      auto* second = reinterpret_cast<std::byte*>(&b[shift]);
      const std::array<const std::byte*, 2> sources{first, second};
      reduce(sources, {std::span(&first, 1), std::span(&second, 1)}, static_cast<std::int64_t>(count),
             DataType::f32, ReduceOp::avg);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(a[shift + i], expected[i]) << i << " of " << count << " from " << shift;
        ASSERT_EQ(b[shift + i], expected[i]) << i << " of " << count << " from " << shift;
      }
      EXPECT_EQ(a[shift + count], 0.0F);
      EXPECT_EQ(b[shift + count], 0.0F);
    }
  }
}

// Every 16-bit pattern, also subnormal, infinite and NaN, beside every kind of other operand: the bits of the
// plain conversions, one element at a time.
template <class T>
void expect_sums_of_every_pattern() {
  constexpr std::size_t patterns = 1U << 16U;
  for (const int other :
       {0x0000, 0x8000, 0x0001, 0x03ff, 0x3c00, 0xbf81, 0x7bff, 0x7c00, 0x7f7f, 0xff80, 0x7e01}) {
    for (const bool mean : {false, true}) {
      std::vector<T> a(patterns);
      std::vector<T> b(patterns);
      std::vector<T> out(patterns);
      for (std::size_t i = 0; i < patterns; ++i) {
        a[i].bits = static_cast<std::uint16_t>(i);
        b[i].bits = static_cast<std::uint16_t>(other);
      }
      const std::array<const std::byte*, 2> sources{reinterpret_cast<const std::byte*>(a.data()),
                                                    reinterpret_cast<const std::byte*>(b.data())};
      auto* result = reinterpret_cast<std::byte*>(out.data());
      reduce(sources, {std::span(&result, 1)}, static_cast<std::int64_t>(patterns), data_type_of<T>,
             mean ? ReduceOp::avg : ReduceOp::sum);
      for (std::size_t i = 0; i < patterns; ++i) {
        const float sum = static_cast<float>(a[i]) + static_cast<float>(b[i]);
        const T exact(mean ? sum / 2.0F : sum);
        // Which of two NaNs a sum hands on is the processor's choice.
        const bool both_nan = std::isnan(static_cast<float>(exact)) && std::isnan(static_cast<float>(out[i]));
        ASSERT_TRUE(out[i].bits == exact.bits || both_nan) << i << " + " << other << (mean ? " halved" : "");
      }
    }
  }
}

TEST(ReduceKernel, SumsEveryHalf) {
  expect_sums_of_every_pattern<Half>();
}
TEST(ReduceKernel, SumsEveryBFloat16) {
  expect_sums_of_every_pattern<BFloat16>();
}

// Numbers of every magnitude, also subnormal ones and those that become so: the bits of a division, whether or not the
// divisor is a power of two.
TEST(ReduceKernel, DividesFloatsAsADivisionDoes) {
  std::mt19937 random(25);
  std::vector<float> a(4099);
  std::vector<float> b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    b[i] = i % 2 == 0 ? 0.0F : std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  }
  const std::array<const std::byte*, 2> sources{reinterpret_cast<const std::byte*>(a.data()),
                                                reinterpret_cast<const std::byte*>(b.data())};
  for (const double divisor :
       {2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 10.0, 64.0, 100.0, 1024.0, 65535.0, 65536.0, 0x1p126, 0x1p127}) {
    std::vector<float> out(a.size());
    auto* result = reinterpret_cast<std::byte*>(out.data());
    reduce(sources, {std::span(&result, 1)}, static_cast<std::int64_t>(a.size()), DataType::f32,
           ReduceOp::avg, divisor);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float exact = (a[i] + b[i]) / static_cast<float>(divisor);
      ASSERT_TRUE(std::bit_cast<std::uint32_t>(out[i]) == std::bit_cast<std::uint32_t>(exact) ||
                  (std::isnan(out[i]) && std::isnan(exact)))
          << a[i] << " + " << b[i] << " divided by " << divisor << " is " << exact << ", not " << out[i];
    }
  }
}

// However the vector, the odd rest and the single elements divide a length.
TEST(ReduceKernel, SumsEveryLength) {
  for (std::size_t count = 1; count < 150; ++count) {
    std::array<std::vector<BFloat16>, 3> inputs;
    std::vector<const std::byte*> sources;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      for (std::size_t i = 0; i < count; ++i)
        inputs[r].emplace_back(0.37F * static_cast<float>(i + 3 * r) - 9.0F);
      sources.push_back(reinterpret_cast<const std::byte*>(inputs[r].data()));
    }
    std::vector<BFloat16> out(count + 1);
    auto* result = reinterpret_cast<std::byte*>(out.data());
    reduce(sources, {std::span(&result, 1)}, static_cast<std::int64_t>(count), DataType::bf16, ReduceOp::sum);
    for (std::size_t i = 0; i < count; ++i) {
      const BFloat16 exact(static_cast<float>(inputs[0][i]) + static_cast<float>(inputs[1][i]) +
                           static_cast<float>(inputs[2][i]));
      ASSERT_EQ(out[i].bits, exact.bits) << i << " of " << count;
    }
    EXPECT_EQ(out[count].bits, 0);
  }
}

}  // namespace
}  // namespace weft::detail
