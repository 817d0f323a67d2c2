// How parameters are cut into fragments, and when each is sent.

#include "local/fragments.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/draw.hpp"
#include "support/expect_error.hpp"

namespace weft {
namespace {

using test::expect_error;

ParamLayout layout_with(const std::vector<std::int64_t>& counts) {
  std::vector<ParamSpec> specs;
  for (const std::int64_t count : counts) specs.push_back({text("p", specs.size()), count});
  return ParamLayout(DataType::f32, std::move(specs));
}

LocalStepsOptions with(int fragments, std::vector<int> fragment_of = {}) {
  return {.every = 12, .fragments = fragments, .fragment_of = std::move(fragment_of)};
}

TEST(Fragments, EqualParametersAreSharedOutEqually) {
  const ParamLayout layout = layout_with(std::vector<std::int64_t>(6, 10));
  EXPECT_EQ(detail::fragments_of(layout, with(1)), std::vector<int>(6, 0));
  EXPECT_EQ(detail::fragments_of(layout, with(2)), (std::vector{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(detail::fragments_of(layout, with(3)), (std::vector{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(detail::fragments_of(layout, with(6)), (std::vector{0, 1, 2, 3, 4, 5}));
}

TEST(Fragments, ALargeParameterIsWhole) {
  EXPECT_EQ(detail::fragments_of(layout_with({4800, 40, 1}), with(2)), (std::vector{0, 1, 1}));
  EXPECT_EQ(detail::fragments_of(layout_with({1, 40, 4800}), with(2)), (std::vector{0, 0, 1}));
  EXPECT_EQ(detail::fragments_of(layout_with({1, 1, 4800}), with(3)), (std::vector{0, 1, 2}));
}

// In the layout's order, none empty, and none larger than its share by more than the largest parameter.
TEST(Fragments, AnyParametersAreCutNearTheirShares) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<std::int64_t> counts;
    const std::size_t parameters = 1 + seed % 17;
    for (std::size_t i = 0; i < parameters; ++i)
      counts.push_back(1 + static_cast<std::int64_t>(std::abs(test::normal(seed, i)) * 1000));
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const std::int64_t largest = *std::max_element(counts.begin(), counts.end());
    for (int fragments = 1; fragments <= static_cast<int>(parameters); ++fragments) {
      const auto cut = detail::fragments_of(layout_with(counts), with(fragments));
      ASSERT_EQ(cut.size(), parameters);
      EXPECT_TRUE(std::is_sorted(cut.begin(), cut.end()));
      for (int one = 0; one < fragments; ++one) {
        std::int64_t size = 0;
        for (std::size_t i = 0; i < parameters; ++i) size += cut[i] == one ? counts[i] : 0;
        EXPECT_GT(size, 0) << seed << ", fragment " << one << " of " << fragments;
        EXPECT_LE(size, all / fragments + largest + 1) << seed << ", fragment " << one << " of " << fragments;
      }
    }
  }
}

TEST(Fragments, MayBeGiven) {
  const ParamLayout layout = layout_with({3, 4, 5, 6});
  const auto strided = detail::fragments_of(layout, with(2, {0, 1, 0, 1}));
  EXPECT_EQ(strided, (std::vector{0, 1, 0, 1}));
  const auto ids = detail::parameters_of(strided, 1);
  EXPECT_EQ(ids, (std::vector{ParamId{1}, ParamId{3}}));
  const ParamLayout part = detail::layout_of(layout, ids);
  EXPECT_EQ(part.parameters(), 2);
  EXPECT_EQ(part.name(ParamId{1}), "p3");
  EXPECT_EQ(part.count(ParamId{1}), 6);
}

TEST(Fragments, ThatCannotBeAreRefused) {
  const ParamLayout layout = layout_with({3, 4, 5});
  expect_error(ErrorKind::usage, {"4 fragments of 3 parameters"},
               [&] { (void)detail::fragments_of(layout, with(4)); });
  expect_error(ErrorKind::usage, {"fragment_of has 2 numbers for 3 parameters"}, [&] {
    (void)detail::fragments_of(layout, with(2, {0, 1}));
  });
  expect_error(ErrorKind::usage, {"parameter p1 in fragment 2 of 2", "0 to 1"}, [&] {
    (void)detail::fragments_of(layout, with(2, {0, 2, 1}));
  });
  expect_error(ErrorKind::usage, {"parameter p0 in fragment -1 of 2"}, [&] {
    (void)detail::fragments_of(layout, with(2, {-1, 0, 1}));
  });
  expect_error(ErrorKind::usage, {"fragment 1 of 3 has no parameter"}, [&] {
    (void)detail::fragments_of(layout, with(3, {0, 2, 0}));
  });
}

TEST(Fragments, AreSentEqualStepsApart) {
  EXPECT_EQ(detail::steps_behind(with(1), 0), 0);
  EXPECT_EQ(detail::steps_behind(with(4), 0), 9);  // due after 12
  EXPECT_EQ(detail::steps_behind(with(4), 1), 6);
  EXPECT_EQ(detail::steps_behind(with(4), 3), 0);
}

TEST(Fragments, OptionsOutOfRangeAreRefused) {
  const auto refused = [](std::initializer_list<std::string> words, const LocalStepsOptions& options) {
    expect_error(ErrorKind::usage, words, [&] { detail::check_streaming(options); });
  };
  refused({"0 fragments"}, {.every = 12, .fragments = 0});
  refused({"5 fragments, each sent every 12 inner steps", "a multiple of 5"}, {.every = 12, .fragments = 5});
  refused({"24 fragments, each sent every 12 inner steps"}, {.every = 12, .fragments = 24});
  refused({"a delay of -1 inner steps", "every 12"}, {.every = 12, .delay = -1});
  refused({"a delay of 12 inner steps", "every 12", "0 to 11"}, {.every = 12, .fragments = 2, .delay = 12});
  for (const double mixing : {-0.1, 1.0, std::nan("")})
    refused({text("a mixing of ", mixing)}, {.every = 12, .delay = 1, .mixing = mixing});
  detail::check_streaming({.every = 12, .fragments = 12, .delay = 11, .mixing = 0.99});
}

}  // namespace
}  // namespace weft
