#include "weft/core/view.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.hpp"
#include "weft/core/buffer.hpp"

namespace weft {
namespace {

TEST(View, SlicesCountElements) {
  std::vector<float> data(10);
  const View view{std::span(data)};
  const View part = view.slice(4, 3);
  EXPECT_EQ(part.data(), &data[4]);
  EXPECT_EQ(part.count(), 3);
  EXPECT_EQ(part.size_bytes(), 12U);
  EXPECT_EQ(ConstView(view).slice(10, 0).count(), 0);
}

TEST(View, RefusesWhatLiesOutside) {
  std::vector<float> data(10);
  const View view{std::span(data)};
  test::expect_error(ErrorKind::usage, {"slice [8, 11)", "10 elements"}, [&] { (void)view.slice(8, 3); });
  test::expect_error(ErrorKind::usage, {"slice [-1, 0)"}, [&] { (void)view.slice(-1, 1); });
  test::expect_error(ErrorKind::usage, {"-1 elements"}, [&] { (void)View(data.data(), -1, DataType::f32); });
  test::expect_error(ErrorKind::usage, {"3 elements"}, [] { (void)View(nullptr, 3, DataType::f32); });
}

TEST(View, RefusesToBeReadAsAnotherType) {
  std::vector<float> data(2);
  test::expect_error(ErrorKind::usage, {"f32", "f64"}, [&] { (void)View(std::span(data)).as<double>(); });
}

TEST(Buffer, IsZeroedAlignedAndMovable) {
  Buffer buffer = Buffer::on_host(DataType::f64, 33);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.view().data()) % Buffer::alignment, 0U);
  for (const double element : buffer.as<double>()) EXPECT_EQ(element, 0.0);
  const Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.count(), 33);
  EXPECT_EQ(Buffer::on_host(DataType::f32, 0).count(), 0);
  test::expect_error(ErrorKind::usage, {"-5"}, [] { (void)Buffer::on_host(DataType::f32, -5); });
}

}  // namespace
}  // namespace weft
