#include "core/elementwise.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {
namespace {

template <class T>
View view(std::vector<T>& elements) {
  return View(std::span(elements));
}

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

}  // namespace
}  // namespace weft::detail
