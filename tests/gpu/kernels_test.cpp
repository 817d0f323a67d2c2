// On a card: kernels beside their host twins, bit by bit; streams, events and copies beside what the fake
// promises.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/cuda/runtime.hpp"
#include "core/memory/elementwise.hpp"
#include "support/expect_error.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {
namespace {

const std::vector<DataType> floating{DataType::f32, DataType::f64, DataType::f16, DataType::bf16};
const std::vector<DataType> all{DataType::f32, DataType::f64, DataType::f16, DataType::bf16,
                                DataType::i32, DataType::i64, DataType::u8,  DataType::i8,
                                DataType::i16, DataType::u32, DataType::u64};
const std::vector<std::int64_t> lengths{0, 1, 7, 8, 255, 4096, 100'003};

/// Numbers of every size, zeros of both signs, infinities and NaN.
template <class T>
std::vector<T> values(std::int64_t count) {
  std::vector<T> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double number =
        std::ldexp(static_cast<double>(i * 2654435761U % 10007) - 5000, static_cast<int>(i % 23) - 16);
    if constexpr (std::is_integral_v<T>) {
      result[i] = static_cast<T>(static_cast<std::int64_t>(i * 2654435761U % 10007));
    } else {
      constexpr double specials[] = {0.0, -0.0, std::numeric_limits<double>::infinity(),
                                     -std::numeric_limits<double>::infinity()};
      result[i] = static_cast<T>(static_cast<Accumulate<T>>(i % 101 < 4 ? specials[i % 101] : number));
    }
  }
  return result;
}

/// The same with what else there is: NaN, and the smallest of a type.
template <class T>
std::vector<T> values_and_worse(std::int64_t count) {
  auto result = values<T>(count);
  if constexpr (!std::is_integral_v<T>) {
    for (std::size_t i = 0; i < result.size(); i += 13)
      result[i] = static_cast<T>(std::numeric_limits<Accumulate<T>>::quiet_NaN());
    for (std::size_t i = 5; i < result.size(); i += 17) {
      result[i] = T{};
      reinterpret_cast<unsigned char&>(result[i]) = 1;  // subnormal: the lowest bit alone
    }
  }
  return result;
}

/// Finite numbers of both signs, whose squares a double does not add exactly: the order shows.
template <class T>
std::vector<T> finite(std::int64_t count) {
  const int exponents = std::is_same_v<T, Half> ? 13 : 41;
  std::vector<T> result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const double digits = (static_cast<double>(i * 2654435761U % 10007) - 5000) / 3;
    result.push_back(static_cast<T>(
        static_cast<Accumulate<T>>(std::ldexp(digits, static_cast<int>(i) % exponents - exponents / 2 - 2))));
  }
  return result;
}

template <class T>
bool same(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {
    const auto wide = [](T value) { return static_cast<double>(static_cast<Accumulate<T>>(value)); };
    if (std::isnan(wide(a)) && std::isnan(wide(b))) return true;  // which NaN is nobody's promise
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

class OnDevice : public testing::Test {
 protected:
  Device device_ = Device::cuda(0);
  Stream stream_{device_};

  template <class T>
  Buffer put(const std::vector<T>& elements) {
    Buffer buffer = Buffer::on(device_, data_type_of<T>, static_cast<std::int64_t>(elements.size()));
    copy(buffer.view(), ConstView(std::span(elements)), stream_);
    stream_.synchronize();
    return buffer;
  }
  template <class T>
  std::vector<T> get(const View& view) {
    std::vector<T> elements(static_cast<std::size_t>(view.count()));
    copy(View(std::span(elements)), view, stream_);
    stream_.synchronize();
    return elements;
  }
  template <class T>
  void expect_same(const std::vector<T>& device, const std::vector<T>& host, const std::string& what) {
    ASSERT_EQ(device.size(), host.size());
    for (std::size_t i = 0; i < host.size(); ++i)
      ASSERT_TRUE(same(device[i], host[i]))
          << what << " of " << host.size() << " " << data_type_of<T> << " at " << i;
  }

  /// The same change on the device and on the host, also of a slice that no vector load is aligned to.
  template <class Change>
  void compare(const std::vector<DataType>& types, const char* what, Change change) {
    for (const DataType dtype : types) {
      dispatch(dtype, [&]<class T>(std::type_identity<T>) {
        for (const std::int64_t n : lengths) {
          for (const std::int64_t from : {std::int64_t{0}, std::min<std::int64_t>(n, 1)}) {
            auto host = values<T>(n);
            Buffer buffer = put(host);
            change(buffer.view().slice(from, n - from), stream_);
            Stream on_host;
            change(View(std::span(host)).slice(from, n - from), on_host);
            expect_same(get<T>(buffer.view()), host, what);
          }
        }
      });
    }
  }
};

TEST_F(OnDevice, DivideIsItsTwin) {
  for (const std::int64_t divisor : {2, 3, 7, 96})
    compare(all, "divide", [divisor](View view, Stream& stream) { detail::divide(view, divisor, stream); });
}

TEST_F(OnDevice, ScaleIsItsTwin) {
  for (const double factor : {0.5, 0.1, -3.7})
    compare(floating, "scale", [factor](View view, Stream& stream) { detail::scale(view, factor, stream); });
}

TEST_F(OnDevice, FillIsItsTwin) {
  compare(all, "fill", [](View view, Stream& stream) { detail::fill(view, 3, stream); });
}

TEST_F(OnDevice, CastIsItsTwin) {
  for (const DataType from : floating) {
    for (const DataType to : floating) {
      dispatch(from, [&]<class From>(std::type_identity<From>) {
        dispatch(to, [&]<class To>(std::type_identity<To>) {
          for (const std::int64_t n : lengths) {
            auto in = values<From>(n);
            std::vector<To> host(in.size());
            Buffer buffer = put(in);
            Buffer out = Buffer::on(device_, to, n);
            detail::cast(out.view(), buffer.view(), stream_);
            Stream on_host;
            detail::cast(View(std::span(host)), View(std::span(in)), on_host);
            expect_same(get<To>(out.view()), host, text("cast from ", from));
          }
        });
      });
    }
  }
}

// Pieces of odd lengths: they begin where 16, 4, 2 or 1 bytes divide the address.
TEST_F(OnDevice, PackIsItsTwin) {
  for (const DataType dtype : {DataType::f32, DataType::f16, DataType::u8}) {
    dispatch(dtype, [&]<class T>(std::type_identity<T>) {
      for (const int pieces : {1, 5, 128, 300}) {
        std::vector<Buffer> buffers;
        RecycledVector<ConstView> views;
        std::vector<T> flat;
        for (int i = 0; i < pieces; ++i) {
          const auto piece = values<T>(i * 37 % 1001);
          const std::int64_t skipped = std::min<std::int64_t>(i % 5, std::ssize(piece));
          flat.insert(flat.end(), piece.begin() + skipped, piece.end());
          buffers.push_back(put(piece));
          views.push_back(buffers.back().view().slice(skipped, std::ssize(piece) - skipped));
        }
        Buffer out = Buffer::on(device_, dtype, static_cast<std::int64_t>(flat.size()));
        detail::pack(out.view(), views, stream_);
        expect_same(get<T>(out.view()), flat, text("pack of ", pieces, " ", dtype));
      }
    });
  }
}

TEST_F(OnDevice, AddIsItsTwin) {
  for (const DataType dtype : all) {
    dispatch(dtype, [&]<class T>(std::type_identity<T>) {
      for (const std::int64_t n : lengths) {
        for (const std::int64_t from : {std::int64_t{0}, std::min<std::int64_t>(n, 1)}) {
          auto host = values_and_worse<T>(n);
          auto other = values<T>(n);
          std::ranges::reverse(other);  // so that infinities meet numbers and each other
          Buffer to = put(host);
          Buffer added = put(other);
          detail::add(to.view().slice(from, n - from), added.view().slice(0, n - from), stream_);
          detail::add(View(std::span(host)).slice(from, n - from),
                      ConstView(std::span(other)).slice(0, n - from), Stream());
          expect_same(get<T>(to.view()), host, "add");
        }
      }
    });
  }
}

// Blocks of one thread each, of a few rounds, of all there is; more blocks than a grid has.
TEST_F(OnDevice, SquareSumsAreTheirTwin) {
  for (const DataType dtype : floating) {
    dispatch(dtype, [&]<class T>(std::type_identity<T>) {
      for (const bool worse : {false, true}) {
        for (const std::int64_t n : {0, 1, 255, 256, 257, 512, 4097, 100'003}) {
          const auto data = worse ? values_and_worse<T>(n) : finite<T>(n);
          const Buffer on_device = put(data);
          for (const std::int64_t block : {7, 16, 32, 64, 128, 192, 256, 257, 1024, 9000, 1 << 20}) {
            if (WEFT_EMULATED && n / block > 1000 && dtype != DataType::f32)
              continue;  // barriers take long there
            std::vector<double> host(static_cast<std::size_t>((n + block - 1) / block));
            Buffer sums = Buffer::on(device_, DataType::f64, static_cast<std::int64_t>(host.size()));
            detail::square_sums(sums.view(), on_device.view(), block, stream_);
            detail::square_sums(View(std::span(host)), ConstView(std::span(data)), block, Stream());
            expect_same(get<double>(sums.view()), host,
                        text("squares in blocks of ", block, " of ", n, " ", dtype, " into"));
          }
        }
      }
    });
  }
}

TEST_F(OnDevice, CountBadIsItsTwin) {
  for (const DataType dtype : floating) {
    dispatch(dtype, [&]<class T>(std::type_identity<T>) {
      std::vector<std::int64_t> host{3, 4};  // which are added to
      Buffer counts = put(host);
      for (const std::int64_t n : lengths) {
        for (const auto& data : {values<T>(n), values_and_worse<T>(n), finite<T>(n)}) {
          const Buffer on_device = put(data);
          detail::count_bad(counts.view(), on_device.view(), stream_);
          detail::count_bad(View(std::span(host)), ConstView(std::span(data)), Stream());
          ASSERT_EQ(get<std::int64_t>(counts.view()), host) << n << " of " << dtype;
        }
      }
      EXPECT_GT(host[0], 3);
      EXPECT_GT(host[1], 4);
    });
  }
}

// A kernel cannot reach the memory of the host.
TEST_F(OnDevice, ResultsLieWhereTheDataDoes) {
  const Buffer data = put(values<float>(300));
  std::vector<double> sums(2);
  std::vector<std::int64_t> counts(2);
  expect_error(ErrorKind::usage, {"squares of 300 f32 on cuda:0", "2 f64 on host"},
               [&] { detail::square_sums(View(std::span(sums)), data.view(), 256, stream_); });
  expect_error(ErrorKind::usage, {"bad values of f32 on cuda:0", "2 i64 on host"},
               [&] { detail::count_bad(View(std::span(counts)), data.view(), stream_); });
}

TEST_F(OnDevice, StreamsWaitForEachOther) {
  constexpr std::int64_t n = WEFT_EMULATED ? 1 << 16 : 1 << 24;
  Stream other(device_);
  Buffer data = Buffer::on(device_, DataType::f32, n);
  for (int round = 0; round < 20; ++round) {
    detail::fill(data.view(), round, stream_);
    other.wait(stream_.record());
    detail::scale(data.view(), 2, other);
    stream_.wait(other.record());
  }
  EXPECT_EQ(get<float>(data.view().slice(n - 1, 1))[0], 38.0F);
  stream_.synchronize(Deadline::in(std::chrono::seconds(30)));
}

// Nobody who captures the graph of a model may lose it to weft's threads, and weft's work is not captured by mistake.
TEST_F(OnDevice, WorkOnACapturedStreamIsRefusedAndLeavesTheCaptureWhole) {
  Buffer data = Buffer::on(device_, DataType::f32, 1000);
  detail::fill(data.view(), 1, stream_);
  const Event before = stream_.record();
  const auto cuda = detail::cuda::runtime();
  cudaStream_t native = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  {
    Stream theirs = adopt_stream(native, device_);
    detail::fill(data.view(), 2, theirs);
    theirs.synchronize();
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal), cudaSuccess);
    expect_error(ErrorKind::usage,
                 {"a stream of cuda:0 that is being captured into a CUDA graph", "end the capture before it"},
                 [&] { detail::fill(data.view(), 3, theirs); });
    expect_error(ErrorKind::usage, {"is being captured"}, [&] { theirs.record(); });
    before.wait(Deadline::in(std::chrono::seconds(30)));
    detail::fill(data.view(), 4, stream_);  // on another stream, beside it
    stream_.synchronize();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
    cudaGraphDestroy(graph);
    EXPECT_EQ(get<float>(data.view())[0], 4.0F);
    detail::scale(data.view(), 2, theirs);  // and it is as good as before
    theirs.synchronize();
  }
  EXPECT_EQ(cudaStreamDestroy(native), cudaSuccess);
  EXPECT_EQ(get<float>(data.view())[0], 8.0F);
}

TEST_F(OnDevice, AStreamOfAnotherDeviceIsRefused) {
  if (detail::cuda::runtime()->devices() < 2) GTEST_SKIP() << "one device";
  cudaStream_t native = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  expect_error(ErrorKind::usage, {"a CUDA stream of another device adopted as one of cuda:1"},
               [&] { adopt_stream(native, Device::cuda(1)); });
  EXPECT_EQ(adopt_stream(native, device_).device(), device_);
  EXPECT_EQ(cudaStreamDestroy(native), cudaSuccess);
}

TEST_F(OnDevice, FreshMemoryIsZeroAndTooMuchIsRefused) {
  EXPECT_EQ(get<std::int64_t>(Buffer::on(device_, DataType::i64, 1000).view()),
            std::vector<std::int64_t>(1000));
  expect_error(ErrorKind::system, {"cannot allocate", "cuda:0", "free memory"},
               [&] { Buffer::on(device_, DataType::u8, std::int64_t{1} << 46); });
  expect_error(ErrorKind::usage, {"device(s)"}, [] { Stream(Device::cuda(1000)); });
  stream_.synchronize();  // and the device is as good as before
}

}  // namespace
}  // namespace weft::test
