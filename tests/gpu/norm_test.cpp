// On a card: the squares of gradients in an exact sum beside their host twin, bit by bit.

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "support/expect_error.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"
#include "zero/optimizer/gradient_norm.hpp"
#include "zero/update/update_cuda.hpp"

namespace weft::test {
namespace {

using Places = std::array<std::int64_t, detail::ExactSum::places_count + 1>;

Places normalized(const detail::ExactSum& sum) {
  Places places{};
  sum.put(places);
  return places;
}

class SquaresOnDevice : public testing::Test {
 protected:
  void add(std::vector<ConstView> gradients) {
    stream_.run(
        [this, gradients = std::move(gradients), place = detail::cuda::place_of(stream_),
         kernels = detail::cuda::update_kernels()] { kernels->add_squares(sum_.view(), gradients, place); });
  }
  Places sum() {
    Places places{};
    copy(View(std::span(places)), sum_.view(), stream_);
    stream_.synchronize();
    return normalized(detail::ExactSum::from(places));
  }

  Stream stream_{Device::cuda(0)};
  Buffer sum_ = Buffer::on(Device::cuda(0), DataType::i64, detail::ExactSum::places_count + 1);
};

/// Magnitudes from the least to the greatest that squares may have.
template <class T>
std::vector<T> drawn(std::int64_t count, unsigned seed, bool worse) {
  std::mt19937 random(seed);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    const double magnitude =
        std::ldexp(1 + static_cast<double>(random()) * 0x1p-32, static_cast<int>(random() % 270) - 140);
    value = static_cast<T>(static_cast<float>(random() % 2 == 0 ? magnitude : -magnitude));
    if (!worse && !std::isfinite(static_cast<float>(value))) value = static_cast<T>(1.0F);
    if (worse && random() % 100 == 0) value = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  }
  return values;
}

// A line, parts of one, a warp's round, several blocks; sums go on from one call to the next.
TEST_F(SquaresOnDevice, AreTheirTwin) {
  for (const bool worse : {false, true}) {
    for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
      dispatch(dtype, [&]<class T>(std::type_identity<T>) {
        if constexpr (sizeof(T) <= 4 && !std::is_integral_v<T>) {
          detail::ExactSum expected = detail::ExactSum::from(sum());
          for (const std::int64_t count : {0, 1, 3, 31, 32, 33, 64, 1023, 1024, 1025, 2049, 8192, 100'003}) {
            const auto host = drawn<T>(count, static_cast<unsigned>(count), worse);
            Buffer gradients = Buffer::on(Device::cuda(0), dtype, count);
            const ConstView there{std::span(host)};
            if (count > 0) copy(gradients.view(), there, stream_);
            add({gradients.view()});
            detail::add_squares(there, expected);
            ASSERT_EQ(sum(), normalized(expected)) << count << " of " << dtype;
          }
          EXPECT_EQ(expected.bad(), worse);
        }
      });
    }
  }
}

// More pieces than a launch takes; some are empty, or shorter than a line.
TEST_F(SquaresOnDevice, OfManyPiecesAreTheirTwin) {
  std::mt19937 random(7);
  const auto host = drawn<float>(300'000, 7, false);
  Buffer gradients = Buffer::on(Device::cuda(0), DataType::f32, 300'000);
  copy(gradients.view(), ConstView(std::span(host)), stream_);
  detail::ExactSum expected;
  std::vector<ConstView> pieces;
  for (std::int64_t at = 0; at + 4000 < 300'000; at += 2048) {
    const std::int64_t count = random() % 3 == 0 ? 0 : random() % 2000;
    pieces.push_back(gradients.view().slice(at, count));
    detail::add_squares(ConstView(std::span(host)).slice(at, count), expected);
  }
  ASSERT_GT(pieces.size(), 128U);
  add(pieces);
  EXPECT_EQ(sum(), normalized(expected));
}

TEST_F(SquaresOnDevice, RefuseWhatIsNotAligned) {
  const Buffer gradients = Buffer::on(Device::cuda(0), DataType::f32, 64);
  expect_error(ErrorKind::system, {"cannot launch squares on cuda:0", "misaligned"}, [&] {
    add({gradients.view().slice(1, 32)});
    stream_.synchronize();
  });
}

}  // namespace
}  // namespace weft::test
