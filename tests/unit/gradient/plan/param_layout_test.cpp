#include "weft/gradient/param_layout.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft {
namespace {

TEST(ParamLayout, TensorsStartOnCacheLinesInOrder) {
  const ParamLayout layout(DataType::f32, {{"a", 1}, {"b", 32}, {"c", 33}});
  EXPECT_EQ(layout.offset(ParamId{0}), 0);
  EXPECT_EQ(layout.offset(ParamId{1}), 32);
  EXPECT_EQ(layout.offset(ParamId{2}), 64);
  EXPECT_EQ(layout.size(), 128);
  EXPECT_EQ(layout.size_bytes(), 512U);
}

TEST(ParamLayout, HashesTellLayoutsApart) {
  const ParamLayout layout(DataType::f32, {{"a", 1}, {"b", 32}});
  EXPECT_EQ(layout.hash(), ParamLayout(DataType::f32, {{"a", 1}, {"b", 32}}).hash());
  EXPECT_NE(layout.hash(), ParamLayout(DataType::f64, {{"a", 1}, {"b", 32}}).hash());
  EXPECT_NE(layout.hash(), ParamLayout(DataType::f32, {{"a", 2}, {"b", 32}}).hash());
  EXPECT_NE(layout.hash(), ParamLayout(DataType::f32, {{"b", 32}, {"a", 1}}).hash());
}

TEST(ParamLayout, ShapesArePartOfTheLayout) {
  const ParamLayout layout(DataType::f32, {{"a", 6, nullptr, {2, 3}}, {"b", 32}});
  EXPECT_EQ(layout.shape(ParamId{0}), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(layout.shape(ParamId{1}), std::vector<std::int64_t>{32});
  EXPECT_NE(layout.hash(), ParamLayout(DataType::f32, {{"a", 6, nullptr, {3, 2}}, {"b", 32}}).hash());
  EXPECT_EQ(layout.hash(),
            ParamLayout(DataType::f32, {{"a", 6, nullptr, {2, 3}}, {"b", 32, nullptr, {32}}}).hash());
  test::expect_error(ErrorKind::usage, {"a has 7 elements and a shape of 6"}, [] {
    ParamLayout(DataType::f32, {{"a", 7, nullptr, {2, 3}}});
  });
}

TEST(ParamLayout, StartsAndTheSizeAreMultiplesOfAUnit) {
  const ParamLayout layout(DataType::f32, {{"a", 1}, {"b", 32}, {"c", 33}, {"d", 5}});
  const ParamLayout moved = layout.with_starts({ParamId{1}, ParamId{3}}, 96);
  EXPECT_EQ(moved.offsets(), (std::vector<std::int64_t>{0, 96, 128, 192}));
  EXPECT_EQ(moved.size(), 288);
  EXPECT_EQ(moved.count(ParamId{2}), 33);
  EXPECT_TRUE(moved.has_parameters_of(layout));
  EXPECT_NE(moved.hash(), layout.hash());
  EXPECT_NE(moved.hash(), layout.with_starts({ParamId{1}, ParamId{2}}, 96).hash());
  EXPECT_NE(layout.with_starts({}, 32 * 5).hash(), layout.with_starts({}, 32 * 7).hash()) << "sizes differ";
  EXPECT_EQ(moved.with_starts({}, 32).hash(), layout.hash());
  EXPECT_FALSE(layout.has_parameters_of(ParamLayout(DataType::f32, {{"a", 1}, {"b", 32}, {"c", 33}})));
  EXPECT_FALSE(ParamLayout(DataType::f32, {{"a", 6, nullptr, {2, 3}}})
                   .has_parameters_of(ParamLayout(DataType::f32, {{"a", 6}})));
  test::expect_error(ErrorKind::usage, {"multiples of 48 elements", "a multiple of 32"},
                     [&] { layout.with_starts({}, 48); });
  test::expect_error(ErrorKind::usage, {"parameter 4 of 4"}, [&] { layout.with_starts({ParamId{4}}, 32); });
}

TEST(ParamLayout, RefusesWhatIsNoModel) {
  test::expect_error(ErrorKind::usage, {"without parameters"}, [] { ParamLayout(DataType::f32, {}); });
  test::expect_error(ErrorKind::usage, {"a", "0 elements"}, [] { ParamLayout(DataType::f32, {{"a", 0}}); });
  test::expect_error(ErrorKind::usage, {"named a"}, [] { ParamLayout(DataType::f32, {{"a", 1}, {"a", 2}}); });
}

TEST(ParamLayout, ParametersThatShareStorageAreRefused) {
  struct Tensor {
    std::string name;
    std::int64_t count;
    const float* data;
  };
  const std::vector<float> tied(10);
  const std::vector<float> own(10);
  using Tensors = std::vector<Tensor>;
  EXPECT_EQ(ParamLayout::of(Tensors{{"embedding", 10, tied.data()}, {"norm", 10, own.data()}}).parameters(),
            2);
  test::expect_error(ErrorKind::usage, {"embedding and head share their storage", "once"}, [&] {
    ParamLayout::of(
        Tensors{{"embedding", 10, tied.data()}, {"norm", 10, own.data()}, {"head", 10, tied.data()}});
  });
}

}  // namespace
}  // namespace weft
