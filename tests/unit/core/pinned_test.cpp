#include "core/pinned.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.hpp"
#include "support/fake_cuda.hpp"

namespace weft::detail {
namespace {

TEST(Pinned, IsZeroedHostMemory) {
  const Buffer buffer = pinned(Device::host(), DataType::f32, 1000);
  EXPECT_EQ(buffer.view().device(), Device::host());
  ASSERT_EQ(buffer.count(), 1000);
  EXPECT_TRUE(std::ranges::all_of(buffer.as<float>(), [](float value) { return value == 0; }));
  EXPECT_EQ(pinned(Device::host(), DataType::f32, 0).count(), 0);
}

TEST(Pinned, SaysHowMuchWasAskedForWhereThereIsLess) {
  test::expect_error(ErrorKind::system,
                     {"35184372088832 bytes of host memory", "left of the machine's memory"},
                     [] { pinned(Device::host(), DataType::f64, std::int64_t{1} << 42); });
}

TEST(Pinned, IsReachedByTheDeviceAtTheSameAddress) {
  const test::WithFakeCuda fake;
  Buffer buffer = pinned(Device::cuda(1), DataType::f32, 10);
  EXPECT_EQ(buffer.view().device(), Device::host());
  const View there = on_device(buffer, Device::cuda(1));
  EXPECT_EQ(there.device(), Device::cuda(1));
  EXPECT_EQ(there.data(), buffer.view().data());
}

TEST(Pinned, SaysWhatMayBeLockedWhereItIsRefused) {
  const test::WithFakeCuda fake;
  fake->refuse_next("allocate_on_host");
  test::expect_error(ErrorKind::system, {"cannot pin 40 bytes", "cuda:0", "ulimit -l", "the fake refuses"},
                     [] { pinned(Device::cuda(0), DataType::f32, 10); });
}

}  // namespace
}  // namespace weft::detail
