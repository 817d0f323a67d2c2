// Against a twin that has a flag for every unit of a small space.

#include "core/memory/free_space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace weft::detail {
namespace {

constexpr std::size_t units = 200;

class Flags {
 public:
  void set(std::uint64_t begin, std::size_t bytes, bool is_free) {
    for (std::size_t i = 0; i < bytes; ++i) {
      ASSERT_NE(free_[begin + i], is_free) << "unit " << begin + i << " twice";
      free_[begin + i] = is_free;
    }
  }
  FreeSpace::Ranges ranges() const {
    FreeSpace::Ranges result;
    for (std::size_t i = 0; i < units; ++i) {
      if (!free_[i]) continue;
      std::size_t end = i;
      while (end < units && free_[end]) ++end;
      result.emplace(i, end - i);
      i = end;
    }
    return result;
  }
  /// Every place that has room.
  std::vector<std::uint64_t> places(std::size_t bytes, std::size_t alignment) const {
    std::vector<std::uint64_t> result;
    for (const auto& [begin, size] : ranges()) {
      for (std::uint64_t at = begin; at + bytes <= begin + size; ++at) {
        if (at % alignment == 0) result.push_back(at);
      }
    }
    return result;
  }
  /// The length of the range that it lies in.
  std::size_t around(std::uint64_t place) const {
    const auto all = ranges();
    return std::prev(all.upper_bound(place))->second;
  }
  std::size_t count() const { return static_cast<std::size_t>(std::ranges::count(free_, true)); }

 private:
  std::vector<bool> free_ = std::vector<bool>(units);
};

TEST(FreeSpace, IsItsTwinOfFlags) {
  std::mt19937 random(11);
  FreeSpace space;
  Flags flags;
  space.add(0, units);
  flags.set(0, units, true);
  std::vector<std::pair<std::uint64_t, std::size_t>> taken;
  std::size_t full = 0;
  for (int round = 0; round < 4000; ++round) {
    ASSERT_EQ(space.ranges(), flags.ranges());
    ASSERT_EQ(space.bytes(), flags.count());
    if (!taken.empty() && random() % 2 == 0) {
      std::swap(taken[random() % taken.size()], taken.back());
      const auto [begin, bytes] = taken.back();
      taken.pop_back();
      space.add(begin, bytes);
      flags.set(begin, bytes, true);
      continue;
    }
    const std::size_t bytes = 1 + random() % 20;
    const std::size_t alignment = std::size_t{1} << random() % 5;
    const bool first = random() % 2 == 0;
    const auto places = flags.places(bytes, alignment);
    const auto place = first ? space.take_first(bytes, alignment) : space.take_smallest(bytes, alignment);
    ASSERT_EQ(place.has_value(), !places.empty());
    if (!place) {
      ++full;
      continue;
    }
    ASSERT_TRUE(std::ranges::find(places, *place) != places.end());
    if (first) {
      ASSERT_EQ(*place, places.front());
    } else {
      for (const std::uint64_t other : places) ASSERT_LE(flags.around(*place), flags.around(other));
    }
    flags.set(*place, bytes, false);
    taken.emplace_back(*place, bytes);
  }
  EXPECT_GT(full, 50U) << "a full space has to be tried";
}

TEST(FreeSpace, ClearedHasNothing) {
  FreeSpace space;
  space.add(0, 10);
  space.clear();
  EXPECT_EQ(space.bytes(), 0U);
  EXPECT_FALSE(space.take_first(1, 1).has_value());
  EXPECT_FALSE(space.take_smallest(1, 1).has_value());
}

}  // namespace
}  // namespace weft::detail
