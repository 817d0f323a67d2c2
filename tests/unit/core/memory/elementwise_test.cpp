#include "core/memory/elementwise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "support/expect_error.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {
namespace {

template <class T>
View view(std::vector<T>& elements) {
  return View(std::span(elements));
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;

template <class T>
T from(double value) {
  return static_cast<T>(static_cast<Accumulate<T>>(value));
}
template <class T>
double wide(T value) {
  return static_cast<double>(static_cast<Accumulate<T>>(value));
}
template <class T>
bool same_bits(T a, T b) {
  return std::bit_cast<BitsOf<T>>(a) == std::bit_cast<BitsOf<T>>(b);
}

/// The extreme values of a type, made from their bits.
template <class T>
struct Special {
  using Bits = BitsOf<T>;
  static constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(T) - 1));
  static T infinity() { return from<T>(std::numeric_limits<double>::infinity()); }
  static T least() { return std::bit_cast<T>(Bits{1}); }
  static T most() { return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(infinity()) - 1)); }
  /// The first and the last NaN there is, the first of which signals.
  static T first_nan() { return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(infinity()) + 1)); }
  static T last_nan() { return std::bit_cast<T>(static_cast<Bits>(sign - 1)); }
  static T negative(T value) {
    return std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(value) | sign));
  }
};

/// Finite numbers of both signs that no sum of squares holds exactly.
template <class T>
std::vector<T> numbers(std::size_t count) {
  const int exponents = std::is_same_v<T, Half> ? 13 : 41;
  std::vector<T> result;
  for (std::size_t i = 0; i < count; ++i) {
    const double digits = (static_cast<double>(i * 2654435761U % 10007) - 5000) / 3;
    result.push_back(from<T>(std::ldexp(digits, static_cast<int>(i) % exponents - exponents / 2 - 2)));
  }
  return result;
}

template <class T>
class ElementwiseOf : public testing::Test {};
struct Names {
  template <class T>
  static std::string GetName(int) {
    return name(data_type_of<T>);
  }
};
using Floating = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(ElementwiseOf, Floating, Names);

TEST(Elementwise, SumsAreScaledInTheirWidestTypeAndRoundedOnce) {
  Stream stream;
  std::vector<float> floats{1, 2, 3};
  divide(view(floats), 3, stream);
  EXPECT_EQ(floats, (std::vector{1.0F / 3, 2.0F / 3, 1.0F}));
  scale(view(floats), 0.1, stream);
  EXPECT_EQ(floats[2], 0.1F);
  std::vector<BFloat16> halves{BFloat16(3.0F)};
  divide(view(halves), 7, stream);  // 1/7 rounded to bf16 first would give 0.4277
  EXPECT_EQ(halves[0].bits, BFloat16(3.0F / 7.0F).bits);
  std::vector<std::int32_t> integers{-7, 7};
  divide(view(integers), 2, stream);
  EXPECT_EQ(integers, (std::vector{-3, 3}));
}

TEST(Elementwise, CastsRoundToNearestEvenAndKeepWhatFits) {
  Stream stream;
  std::vector<float> in{1.0F, 1.00390625F, 65520.0F, -0.0F};
  std::vector<BFloat16> narrow(4);
  std::vector<Half> half(4);
  std::vector<double> wide(4);
  cast(view(narrow), view(in), stream);
  cast(view(half), view(in), stream);
  cast(view(wide), view(half), stream);
  EXPECT_EQ(static_cast<float>(narrow[1]), 1.0F);  // a tie, to even
  EXPECT_EQ(wide[0], 1.0);
  EXPECT_TRUE(std::isinf(wide[2]));
  EXPECT_TRUE(std::signbit(wide[3]));
  std::vector<std::int32_t> integers(4);
  test::expect_error(ErrorKind::usage, {"cast of 4 f32 on host to 4 i32 on host"},
                     [&] { cast(view(integers), view(in), stream); });
}

TEST(Elementwise, PiecesArePackedOneAfterTheOther) {
  Stream stream;
  std::vector<float> a{1, 2};
  std::vector<float> none;
  std::vector<float> b{3};
  std::vector<float> flat(3);
  pack(view(flat), {view(a), view(none), view(b)}, stream);
  EXPECT_EQ(flat, (std::vector{1.0F, 2.0F, 3.0F}));
  test::expect_error(ErrorKind::usage, {"pack of 2 elements into 3"},
                     [&] { pack(view(flat), {view(a)}, stream); });
  fill(view(flat), 4, stream);
  EXPECT_EQ(flat, std::vector(3, 4.0F));
}

TYPED_TEST(ElementwiseOf, AddTakesEverySumInTheWidestTypeAndRoundsOnce) {
  using T = TypeParam;
  Stream stream;
  for (const std::size_t count : {0U, 1U, 7U, 255U, 256U, 257U, 1003U}) {
    auto to = numbers<T>(count + 5);
    const auto before = to;
    auto other = numbers<T>(count + 1);
    add(view(to).slice(0, static_cast<std::int64_t>(count)),
        view(other).slice(1, static_cast<std::int64_t>(count)), stream);
    for (std::size_t i = 0; i < count; ++i) {
      const auto sum = static_cast<Accumulate<T>>(before[i]) + static_cast<Accumulate<T>>(other[i + 1]);
      ASSERT_TRUE(same_bits(to[i], static_cast<T>(sum))) << i << " of " << count;
    }
    for (std::size_t i = count; i < count + 5; ++i) ASSERT_TRUE(same_bits(to[i], before[i]));
  }
}

TYPED_TEST(ElementwiseOf, AddKeepsWhatIsNoNumberAndWhatIsHardlyOne) {
  using T = TypeParam;
  using Of = Special<T>;
  Stream stream;
  const auto zero = from<T>(0);
  const auto sum = [&](T a, T b) {
    std::vector<T> to{a};
    std::vector<T> other{b};
    add(view(to), view(other), stream);
    return to[0];
  };
  EXPECT_TRUE(std::isnan(wide(sum(Of::infinity(), Of::negative(Of::infinity())))));
  EXPECT_TRUE(std::isnan(wide(sum(Of::last_nan(), from<T>(1)))));
  EXPECT_TRUE(same_bits(sum(Of::infinity(), from<T>(-1)), Of::infinity()));
  EXPECT_TRUE(same_bits(sum(Of::most(), Of::most()), Of::infinity()));
  EXPECT_TRUE(same_bits(sum(Of::negative(zero), Of::negative(zero)), Of::negative(zero)));
  EXPECT_TRUE(same_bits(sum(Of::negative(zero), zero), zero));
  EXPECT_TRUE(same_bits(sum(Of::least(), Of::least()), std::bit_cast<T>(static_cast<BitsOf<T>>(2))));
  EXPECT_TRUE(same_bits(sum(Of::least(), Of::negative(Of::least())), zero));
}

TEST(Elementwise, SumsOfIntegersWrapInTheirOwnWidth) {
  Stream stream;
  std::vector<std::uint8_t> bytes{250, 1};
  std::vector<std::uint8_t> more{10, 2};
  add(view(bytes), view(more), stream);
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{4, 3}));
  std::vector<std::int32_t> words{std::numeric_limits<std::int32_t>::max(), -7};
  std::vector<std::int32_t> others{1, 3};
  add(view(words), view(others), stream);
  EXPECT_EQ(words, (std::vector{std::numeric_limits<std::int32_t>::min(), -4}));
}

TEST(Elementwise, OnlyWhatIsAlikeIsAdded) {
  Stream stream;
  std::vector<float> floats(3);
  std::vector<double> doubles(3);
  std::vector<float> shorter(2);
  test::expect_error(ErrorKind::usage, {"sum of 3 f32 on host and 3 f64 on host"},
                     [&] { add(view(floats), view(doubles), stream); });
  test::expect_error(ErrorKind::usage, {"sum of 3 f32 on host and 2 f32 on host"},
                     [&] { add(view(floats), view(shorter), stream); });
  const View elsewhere(floats.data(), 3, DataType::f32, Device::cuda(0));
  test::expect_error(ErrorKind::usage, {"sum of 3 f32 on host and 3 f32 on cuda:0"},
                     [&] { add(view(floats), elsewhere, stream); });
  test::expect_error(ErrorKind::usage, {"add of memory on cuda:0 on a stream of host"},
                     [&] { add(elsewhere, elsewhere, stream); });
}

/// As the header defines it: element i is added to partial sum i % 256, and those are added pairwise.
template <class T>
double squares_by_definition(std::span<const T> block) {
  std::vector<double> partial(256);
  for (std::size_t i = 0; i < block.size(); ++i) partial[i % 256] += wide(block[i]) * wide(block[i]);
  while (partial.size() > 1) {
    const std::size_t half = partial.size() / 2;
    for (std::size_t i = 0; i < half; ++i) partial[i] += partial[half + i];
    partial.resize(half);
  }
  return partial[0];
}

TYPED_TEST(ElementwiseOf, SquaresAreSummedBlockByBlockInOneFixedOrder) {
  using T = TypeParam;
  Stream stream;
  for (const std::size_t count : {0U, 1U, 255U, 256U, 257U, 511U, 512U, 513U, 1023U, 4099U}) {
    auto data = numbers<T>(count);
    for (const std::size_t block : {1U, 2U, 64U, 255U, 256U, 257U, 512U, 1000U, 5000U}) {
      const std::size_t blocks = (count + block - 1) / block;
      std::vector<double> sums(blocks, -1.0);
      square_sums(view(sums), view(data), static_cast<std::int64_t>(block), stream);
      for (std::size_t b = 0; b < blocks; ++b) {
        const auto some = std::span<const T>(data).subspan(b * block, std::min(block, count - b * block));
        ASSERT_TRUE(same_bits(sums[b], squares_by_definition(some)))
            << "block " << b << " of " << block << ", " << count << " elements";
        long double exact = 0;
        for (const T& one : some) exact += static_cast<long double>(wide(one)) * wide(one);
        ASSERT_NEAR(sums[b], static_cast<double>(exact), 1e-12 * static_cast<double>(exact));
      }
    }
  }
}

TYPED_TEST(ElementwiseOf, SquaresOfWhatIsNoNumberStayInTheirBlock) {
  using T = TypeParam;
  using Of = Special<T>;
  Stream stream;
  std::vector<T> data(5 * 300, from<T>(-2));
  data[299] = Of::last_nan();
  data[300] = Of::negative(Of::infinity());
  std::fill(data.begin() + 600, data.begin() + 900, Of::negative(from<T>(0)));
  std::fill(data.begin() + 900, data.begin() + 1200, Of::negative(Of::least()));
  std::vector<double> sums(5);
  square_sums(view(sums), view(data), 300, stream);
  EXPECT_TRUE(std::isnan(sums[0]));
  EXPECT_EQ(sums[1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(sums[2], 0.0);
  EXPECT_FALSE(std::signbit(sums[2]));
  const double least = wide(Of::least());  // a double's square is 0, all others' are not
  EXPECT_EQ(sums[3], squares_by_definition(std::span<const T>(data).subspan(900, 300)));
  EXPECT_EQ(sums[3] > 0, least * least > 0);
  EXPECT_EQ(sums[4], 1200.0);
}

TEST(Elementwise, SquaresThatHaveNoPlaceAreRefused) {
  Stream stream;
  std::vector<float> data(300);
  std::vector<std::int32_t> integers(300);
  std::vector<double> two(2);
  std::vector<double> three(3);
  std::vector<float> narrow(2);
  const auto refused = [](const std::string& words, const auto& call) {
    test::expect_error(ErrorKind::usage, {words}, call);
  };
  refused("squares of 300 f32 on host in blocks of 256 into 3 f64",
          [&] { square_sums(view(three), view(data), 256, stream); });
  refused("squares of 300 f32 on host in blocks of 100 into 2 f64",
          [&] { square_sums(view(two), view(data), 100, stream); });
  refused("in blocks of 0", [&] { square_sums(view(two), view(data), 0, stream); });
  refused("in blocks of -256", [&] { square_sums(view(two), view(data), -256, stream); });
  refused("into 2 f32", [&] { square_sums(view(narrow), view(data), 256, stream); });
  refused("squares of 300 i32", [&] { square_sums(view(two), view(integers), 256, stream); });
  const View elsewhere(data.data(), 300, DataType::f32, Device::cuda(0));
  refused("on cuda:0", [&] { square_sums(view(two), elsewhere, 256, stream); });
  const View sums_elsewhere(two.data(), 2, DataType::f64, Device::cuda(0));
  refused("on cuda:0", [&] { square_sums(sums_elsewhere, view(data), 256, stream); });
}

TYPED_TEST(ElementwiseOf, BadValuesAreCountedWhereverTheyStand) {
  using T = TypeParam;
  using Of = Special<T>;
  Stream stream;
  const std::vector<T> some{Of::first_nan(),
                            Of::last_nan(),
                            Of::negative(Of::first_nan()),
                            Of::infinity(),
                            Of::negative(Of::infinity()),
                            Of::most(),
                            Of::negative(Of::most()),
                            Of::least(),
                            Of::negative(Of::least()),
                            from<T>(0),
                            Of::negative(from<T>(0)),
                            from<T>(-1.5)};
  std::vector<std::int64_t> counts{100, 1000};  // which are added to
  std::int64_t nans = 100;
  std::int64_t infinities = 1000;
  for (const std::size_t count : {0U, 1U, 255U, 256U, 257U, 16383U, 16384U, 16385U, 32769U}) {
    auto data = numbers<T>(count);
    for (std::size_t i = 0; i < count; i += i % 97 + 1) data[count - 1 - i] = some[i % some.size()];
    for (const T& one : data) {
      nans += std::isnan(wide(one)) ? 1 : 0;
      infinities += std::isinf(wide(one)) ? 1 : 0;
    }
    count_bad(view(counts), view(data), stream);
    ASSERT_EQ(counts, (std::vector{nans, infinities})) << count << " elements";
  }
}

// More bad values than 16 bits can count.
TYPED_TEST(ElementwiseOf, AllMayBeBad) {
  using T = TypeParam;
  Stream stream;
  std::vector<T> data(70'000, Special<T>::last_nan());
  std::fill(data.begin(), data.begin() + 1000, Special<T>::infinity());
  std::vector<std::int64_t> counts(2);
  count_bad(view(counts), view(data), stream);
  EXPECT_EQ(counts, (std::vector<std::int64_t>{69'000, 1000}));
}

template <class T>
void expect_every_pattern_to_be_known() {
  std::vector<T> all(1U << 16U);
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].bits = static_cast<std::uint16_t>(i);
    nans += std::isnan(wide(all[i])) ? 1 : 0;
    infinities += std::isinf(wide(all[i])) ? 1 : 0;
  }
  std::vector<std::int64_t> counts(2);
  count_bad(view(counts), view(all), Stream());
  EXPECT_EQ(counts, (std::vector{nans, infinities}));
}

TEST(Elementwise, EveryPatternOf16BitsIsBadOrIsNot) {
  expect_every_pattern_to_be_known<Half>();
  expect_every_pattern_to_be_known<BFloat16>();
}

TEST(Elementwise, PartsOfATensorMayBeCountedByTwoThreads) {
  std::vector<float> data(1000, std::numeric_limits<float>::quiet_NaN());
  std::vector<std::int64_t> counts(2);
  const auto count = [&](std::int64_t from, std::int64_t elements) {
    for (std::int64_t i = 0; i < elements; ++i)
      count_bad(view(counts), view(data).slice(from + i, 1), Stream());
  };
  std::thread other(count, 0, 500);
  count(500, 500);
  other.join();
  EXPECT_EQ(counts, (std::vector<std::int64_t>{1000, 0}));
}

TEST(Elementwise, CountsThatHaveNoPlaceAreRefused) {
  Stream stream;
  std::vector<float> data(3);
  std::vector<std::int32_t> integers(3);
  std::vector<std::int64_t> counts(2);
  std::vector<std::int64_t> three(3);
  std::vector<std::int32_t> narrow(2);
  const auto refused = [](const std::string& words, const auto& call) {
    test::expect_error(ErrorKind::usage, {words}, call);
  };
  refused("count of bad values of f32 on host into 3 i64",
          [&] { count_bad(view(three), view(data), stream); });
  refused("count of bad values of f32 on host into 2 i32",
          [&] { count_bad(view(narrow), view(data), stream); });
  refused("count of bad values of i32", [&] { count_bad(view(counts), view(integers), stream); });
  const View elsewhere(data.data(), 3, DataType::f32, Device::cuda(0));
  refused("on cuda:0", [&] { count_bad(view(counts), elsewhere, stream); });
  const View counts_elsewhere(counts.data(), 2, DataType::i64, Device::cuda(0));
  refused("on cuda:0", [&] { count_bad(counts_elsewhere, view(data), stream); });
}

}  // namespace
}  // namespace weft::detail
