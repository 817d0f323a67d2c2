#include "collectives/algorithms/reduce_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
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

}  // namespace
}  // namespace weft::detail
