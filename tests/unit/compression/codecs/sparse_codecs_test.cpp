#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "compression/codecs/elias_fano.hpp"
#include "unit/compression/some_gradients.hpp"
#include "weft/compression/codec.hpp"

namespace weft {
namespace {

std::vector<float> round_trip(const Codec& codec, std::span<const float> values,
                              const CodingPosition& position = {}) {
  std::vector<std::byte> code(
      static_cast<std::size_t>(codec.encoded_bytes(static_cast<std::int64_t>(values.size()))));
  codec.encode(code, values, position);
  std::vector<float> decoded(values.size(), 17.0F);
  codec.decode(decoded, code, position);
  return decoded;
}

/// By sorting everything.
std::vector<float> k_largest(std::span<const float> values, std::size_t k) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return std::abs(values[i]); });
  std::vector<float> kept(values.size());
  for (std::size_t i = 0; i < k; ++i) kept[order[i]] = values[order[i]];
  return kept;
}

TEST(TopK, KeepsTheLargestMagnitudesAndOfEqualOnesTheFirst) {
  for (const std::size_t count : {1U, 10U, 1000U, 3000U}) {
    for (const test::Kind& kind : test::ordinary_and_extreme(count)) {
      for (const double fraction : {1e-6, 0.01, 0.1, 0.5, 1.0}) {
        const auto k = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(count)));
        ASSERT_EQ(round_trip(*top_k_codec(fraction), kind.values), k_largest(kind.values, k))
            << kind.name << ", " << fraction << " of " << count;
      }
    }
  }
}

TEST(TopK, WithItsErrorIsTheInput) {
  for (const test::Kind& kind : test::ordinary_and_extreme(1000)) {
    const auto codec = top_k_codec(0.05);
    std::vector<std::byte> code(static_cast<std::size_t>(codec->encoded_bytes(1000)));
    codec->encode(code, kind.values, {});
    std::vector<float> error = kind.values;
    codec->decode(error, code, {}, Into::subtract);
    codec->decode(error, code, {}, Into::add);
    EXPECT_EQ(error, kind.values) << kind.name;
  }
}

TEST(TopK, KeepsNaNAsTheLargestOfAll) {
  std::vector<float> values(100, 1.0F);
  values[70] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(round_trip(*top_k_codec(0.01), values)[70]));
}

TEST(EliasFano, TakesFewBitsAndGivesBackWhatItWasGiven) {
  std::mt19937 engine(1);
  for (const std::int64_t limit : {1, 2, 7, 1000, 100000}) {
    for (const std::int64_t count : {std::int64_t{1}, limit / 100, limit / 3, limit}) {
      if (count == 0) continue;
      std::vector<std::int64_t> all(static_cast<std::size_t>(limit));
      std::iota(all.begin(), all.end(), 0);
      std::vector<std::int64_t> numbers;
      std::ranges::sample(all, std::back_inserter(numbers), count, engine);
      for (const bool last : {false, true}) {  // those at the end take most
        if (last) std::copy(all.end() - count, all.end(), numbers.begin());
        const detail::EliasFano code(count, limit);
        const double each = 2 + std::log2(static_cast<double>(limit) / static_cast<double>(count));
        EXPECT_LE(code.bytes() * 8, std::ceil(static_cast<double>(count) * each) + 14);
        std::vector<std::byte> bytes(static_cast<std::size_t>(code.bytes()));
        code.encode(bytes, numbers);
        std::vector<std::int64_t> decoded;
        code.decode(bytes, [&](std::int64_t, std::int64_t number) { decoded.push_back(number); });
        ASSERT_EQ(decoded, numbers) << count << " of " << limit;
      }
    }
  }
}

TEST(RandomK, KeepsEveryElementEquallyOften) {
  constexpr int steps = 3000;
  constexpr std::size_t count = 4096 + 1000;
  const auto codec = random_k_codec(0.03);
  const std::vector<float> ones(count, 1.0F);
  std::vector<int> kept(count);
  for (int step = 0; step < steps; ++step) {
    const auto decoded = round_trip(*codec, ones, {static_cast<std::uint64_t>(step), step % 3, 0});
    EXPECT_EQ(std::ranges::count(decoded, 1.0F), 123 + 30);
    for (std::size_t i = 0; i < count; ++i) kept[i] += decoded[i] == 1.0F ? 1 : 0;
  }
  double chi_squared = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double expected = steps * (i < 4096 ? 123.0 / 4096 : 30.0 / 1000);
    chi_squared += (kept[i] - expected) * (kept[i] - expected) / expected;
  }
  EXPECT_NEAR(chi_squared, count * (1 - 0.03), 5 * std::sqrt(2.0 * count));
}

TEST(RandomK, RanksChooseTheSameAndStepsAnother) {
  const auto values = test::log_normal(8192, 1, 2);
  const auto codec = random_k_codec(0.1, 5);
  EXPECT_EQ(round_trip(*codec, values, {4, 0, 0}), round_trip(*codec, values, {4, 3, 0}));
  EXPECT_NE(round_trip(*codec, values, {4, 0, 0}), round_trip(*codec, values, {5, 0, 0}));
  EXPECT_NE(round_trip(*codec, values, {4, 0, 0}), round_trip(*codec, values, {4, 0, 4096}));
  EXPECT_NE(round_trip(*codec, values, {4, 0, 0}), round_trip(*random_k_codec(0.1, 6), values, {4, 0, 0}));
}

}  // namespace
}  // namespace weft
