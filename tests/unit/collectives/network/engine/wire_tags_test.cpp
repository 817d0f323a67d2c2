#include "collectives/network/engine/wire_tags.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace weft::detail {
namespace {

/// The least that MPI allows to be the largest tag, and what most libraries allow.
constexpr std::array limits{32767, std::numeric_limits<std::int32_t>::max()};
/// Room for a power of two of operations: their low bits alone choose among them.
constexpr int power_of_two = wire_tags::first_collective + exchange_stages * (1 << 14);
constexpr int trials = 10'000;

class Operations {
 public:
  Operation next() {
    return {.kind = static_cast<Collective>(below(7)),
            .number = 1 + below(1'000'000),
            .count = static_cast<std::int64_t>(below(std::uint64_t{1} << (1 + below(40)))),
            .dtype = static_cast<DataType>(below(7)),
            .op = static_cast<ReduceOp>(below(5)),
            .root = static_cast<int>(below(64))};
  }
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  /// Another value than `value`, of as many.
  template <class T>
  T other(T value, std::uint64_t values) {
    return static_cast<T>((static_cast<std::uint64_t>(value) + 1 + below(values - 1)) % values);
  }

 private:
  std::mt19937_64 random_{20240611};
};

/// One operation for each field that differs from `one`.
std::vector<Operation> neighbours(const Operation& one, Operations& operations) {
  std::vector<Operation> result(6, one);
  result[0].number += 1 + operations.below(100);
  result[1].kind = operations.other(one.kind, 7);
  result[2].count += 1 + static_cast<std::int64_t>(operations.below(100));
  result[3].dtype = operations.other(one.dtype, 7);
  result[4].op = operations.other(one.op, 5);
  result[5].root = operations.other(one.root, 64);
  return result;
}

TEST(WireTags, LieAboveEverybodyElsesAndWithinWhatMpiAllows) {
  EXPECT_GT(wire_tags::first_collective, wire_tags::side_channel);
  EXPECT_GT(wire_tags::first_collective, wire_tags::arrival);
  EXPECT_GT(wire_tags::first_collective, wire_tags::verdict);
  EXPECT_GT(wire_tags::first_collective, wire_tags::transfers);
  for (const int most : limits) {
    Operations operations;
    int largest = 0;
    for (int i = 0; i < trials; ++i) {
      const int tag = wire_tags::of(operations.next(), most);
      ASSERT_GE(tag, wire_tags::first_collective);
      ASSERT_LE(tag, most - (exchange_stages - 1)) << "its last stage is beyond";
      largest = std::max(largest, tag);
    }
    EXPECT_GT(largest, most - most / 100) << "a part of the tags is never used";
  }
}

// With little room every tag is taken, the last one as well.
TEST(WireTags, StayWithinTheNarrowestLimit) {
  for (int most = wire_tags::first_collective + exchange_stages; most < 100; ++most) {
    Operations operations;
    for (int i = 0; i < 1000; ++i) {
      const int tag = wire_tags::of(operations.next(), most);
      ASSERT_GE(tag, wire_tags::first_collective);
      ASSERT_LE(tag + exchange_stages - 1, most);
    }
  }
}

// Two operations share all tags or none: the stages of one are never those of another, one further.
TEST(WireTags, RangesOfStagesAreTheSameOrApart) {
  for (const int most : limits) {
    Operations operations;
    for (int i = 0; i < trials; ++i) {
      const Operation one = operations.next();
      const int tag = wire_tags::of(one, most);
      ASSERT_EQ((tag - wire_tags::first_collective) % exchange_stages, 0);
      for (const Operation& other : neighbours(one, operations)) {
        const int apart = std::abs(wire_tags::of(other, most) - tag);
        ASSERT_TRUE(apart == 0 || apart >= exchange_stages) << one.text() << " and " << other.text();
      }
    }
  }
}

TEST(WireTags, AreMadeOfWhatRanksAgreeOnAndOfNothingElse) {
  std::vector<float> here(4);
  std::vector<float> there(8);
  for (const int most : limits) {
    Operations operations;
    for (int i = 0; i < trials; ++i) {
      const Operation one = operations.next();
      Operation same = one;  // on another rank
      same.in = ConstView(std::span(here));
      same.out = View(std::span(there));
      same.slices = 3;
      same.divisor = 5;
      ASSERT_TRUE(same.agrees_with(one));
      ASSERT_EQ(wire_tags::of(same, most), wire_tags::of(one, most));
    }
  }
}

TEST(WireTags, DifferForNearlyAllOperationsThatDifferInOneThing) {
  for (const int most : limits) {
    Operations operations;
    std::array<int, 6> collisions{};
    for (int i = 0; i < trials; ++i) {
      const Operation one = operations.next();
      const auto others = neighbours(one, operations);
      for (std::size_t field = 0; field < others.size(); ++field) {
        ASSERT_FALSE(others[field].agrees_with(one));
        collisions[field] += wire_tags::of(others[field], most) == wire_tags::of(one, most) ? 1 : 0;
      }
    }
    // Chance alone makes 0.6 a field with the fewest tags.
    for (const int of_field : collisions) EXPECT_LE(of_field, most == limits[0] ? 6 : 0) << "of " << most;
  }
}

// Up to 2^40 elements: no machine has more.
TEST(WireTags, DifferForCountsThatDifferInHighBitsOnly) {
  for (const int most : {limits[0], limits[1], power_of_two}) {
    Operations operations;
    int collisions = 0;
    for (int i = 0; i < trials; ++i) {
      const Operation one = operations.next();
      Operation other = one;
      other.count ^= std::int64_t{1} << (20 + operations.below(20));
      collisions += wire_tags::of(other, most) == wire_tags::of(one, most) ? 1 : 0;
    }
    EXPECT_LE(collisions, 6) << "of " << most;
  }
}

TEST(WireTags, DifferForOperationsThatFollowEachOther) {
  for (const int most : limits) {
    int collisions = 0;
    Operation one{.kind = Collective::all_reduce, .number = 1, .count = 1024, .dtype = DataType::f32};
    for (int i = 0; i < trials; ++i, ++one.number) {
      Operation next = one;
      ++next.number;
      collisions += wire_tags::of(one, most) == wire_tags::of(next, most) ? 1 : 0;
    }
    EXPECT_LE(collisions, 6) << "of " << most;
  }
}

}  // namespace
}  // namespace weft::detail
