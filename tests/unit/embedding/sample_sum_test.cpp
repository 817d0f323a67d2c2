#include "embedding/sample_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>

namespace weft::detail {
namespace {

/// The definition: a block is the sum of its halves, those without a summand left out.
std::optional<float> block_sum(const std::map<std::int64_t, float>& samples, std::int64_t begin, int height) {
  if (height == 0) {
    const auto here = samples.find(begin);
    return here == samples.end() ? std::nullopt : std::optional(here->second);
  }
  const auto left = block_sum(samples, begin, height - 1);
  const auto right = block_sum(samples, begin + (std::int64_t{1} << (height - 1)), height - 1);
  if (!left) return right;
  if (!right) return left;
  return *left + *right;
}

struct Part {
  std::int64_t sample;
  float value;
};

std::vector<Part> parts_of(SampleSum& sum) {
  const SampleSum::Parts parts = sum.finish();
  std::vector<Part> all;
  for (std::size_t i = 0; i < parts.samples.size(); ++i) all.push_back({parts.samples[i], parts.values[i]});
  return all;
}

TEST(SampleSum, IsThatOfTheTreeForAnyCutBetweenRanks) {
  std::mt19937 random(7);  // NOLINT: the same in each run
  std::uniform_real_distribution<float> value(-1, 1);
  for (int trial = 0; trial < 3000; ++trial) {
    const auto all = std::uniform_int_distribution<std::int64_t>(1, 70)(random);
    const int ranks = std::uniform_int_distribution<int>(1, 5)(random);
    std::map<std::int64_t, float> samples;
    const int density = std::uniform_int_distribution<int>(1, 4)(random);
    for (std::int64_t s = 0; s < all; ++s) {
      if (static_cast<int>(random() % 4) < density) samples[s] = value(random);
    }
    if (samples.empty()) continue;
    std::vector<std::int64_t> cuts{0, all};
    for (int i = 1; i < ranks; ++i)
      cuts.push_back(std::uniform_int_distribution<std::int64_t>(0, all)(random));
    std::ranges::sort(cuts);
    SampleSum whole;
    whole.begin(1, nullptr);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const SampleRange mine{cuts[r], cuts[r + 1] - cuts[r], all};
      SampleSum sum;
      sum.begin(1, &mine);
      std::size_t used = 0;
      for (auto at = samples.lower_bound(mine.first);
           at != samples.end() && at->first < mine.first + mine.count; ++at, ++used)
        *sum.push(at->first) = at->second;
      if (used == 0) continue;
      const std::vector<Part> parts = parts_of(sum);
      if (mine.is_one_part()) {
        EXPECT_EQ(parts.size(), 1U);
      }
      EXPECT_LE(parts.size(),
                2U * static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(mine.count))));
      for (const Part& part : parts) *whole.push(part.sample) = part.value;
    }
    const std::vector<Part> result = parts_of(whole);
    ASSERT_EQ(result.size(), 1U);
    ASSERT_EQ(result[0].value, block_sum(samples, 0, 7)) << "trial " << trial;
  }
}

TEST(SampleSum, IsOnePartWhereTheBatchIsCutAtPowersOfTwo) {
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      EXPECT_TRUE((SampleRange{rank * 16, 16, ranks * 16}.is_one_part())) << ranks;
  }
  EXPECT_TRUE((SampleRange{32, 5, 37}.is_one_part()));  // the last rank's block has nobody behind it
  EXPECT_FALSE((SampleRange{0, 5, 37}.is_one_part()));
  EXPECT_FALSE((SampleRange{5, 32, 69}.is_one_part()));
  EXPECT_TRUE((SampleRange{5, 1, 69}.is_one_part()));
  EXPECT_TRUE((SampleRange{5, 0, 69}.is_one_part()));
}

}  // namespace
}  // namespace weft::detail
