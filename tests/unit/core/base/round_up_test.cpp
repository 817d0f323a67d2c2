#include "core/base/round_up.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace weft::detail {
namespace {

TEST(RoundUp, CoversACountWithWholeUnits) {
  for (std::int64_t unit = 1; unit <= 9; ++unit) {
    for (std::int64_t count = 0; count <= 40; ++count) {
      std::int64_t units = 0;
      while (units * unit < count) ++units;
      EXPECT_EQ(ceil_div(count, unit), units) << count << " in units of " << unit;
      EXPECT_EQ(round_up(count, unit), units * unit) << count << " in units of " << unit;
    }
  }
}

TEST(RoundUp, KeepsTheTypeOfTheCount) {
  static_assert(std::is_same_v<decltype(round_up(std::size_t{5}, 64)), std::size_t>);
  static_assert(round_up(std::size_t{3} << 40, std::size_t{2} << 20) == std::size_t{3} << 40);
  static_assert(round_up((std::int64_t{3} << 40) + 1, 64) == (std::int64_t{3} << 40) + 64);
}

}  // namespace
}  // namespace weft::detail
