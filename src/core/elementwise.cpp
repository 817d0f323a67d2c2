#include "core/elementwise.hpp"

#include <cstring>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "core/stream_state.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::detail {
namespace {

/// Runs one of the twins in the order of `stream`: the first on the host, the second on a CUDA device.
template <class OnHost, class OnDevice>
void run(Stream& stream, Device data, const char* what, OnHost on_host, OnDevice on_device) {
  if (data != stream.device()) {
    throw Error(ErrorKind::usage, text(what, " of memory on ", data, " on a stream of ", stream.device()),
                "use a stream of the memory's device");
  }
  if (data.is_host()) {
    stream.run(std::move(on_host));
  } else {
    stream.run([stream = native_handle(stream), on_device = std::move(on_device), runtime = cuda::runtime()] {
      on_device(*runtime, stream);
    });
  }
}

}  // namespace

void divide(View data, std::int64_t divisor, Stream stream) {
  run(
      stream, data.device(), "divide", [=] { on_host::divide(data, divisor); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.divide(data, divisor, native); });
}

void scale(View data, double factor, Stream stream) {
  run(
      stream, data.device(), "scale", [=] { on_host::scale(data, factor); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.scale(data, factor, native); });
}

void cast(View to, ConstView from, Stream stream) {
  if (!is_floating(to.dtype()) || !is_floating(from.dtype()) || to.count() != from.count() ||
      to.device() != from.device()) {
    throw Error(ErrorKind::usage,
                text("cast of ", from.count(), " ", from.dtype(), " on ", from.device(), " to ", to.count(),
                     " ", to.dtype(), " on ", to.device()),
                "both are floating-point, of one length and on one device");
  }
  run(
      stream, to.device(), "cast", [=] { on_host::cast(to, from); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.cast(to, from, native); });
}

void fill(View data, double value, Stream stream) {
  run(
      stream, data.device(), "fill", [=] { on_host::fill(data, value); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.fill(data, value, native); });
}

void pack(View flat, std::vector<ConstView> pieces, Stream stream) {
  std::int64_t sum = 0;
  for (const ConstView& piece : pieces) {
    sum += piece.count();
    if (piece.dtype() != flat.dtype() || piece.device() != flat.device()) {
      throw Error(ErrorKind::usage, text("pack of ", piece.dtype(), " on ", piece.device(), " into ",
                                         flat.dtype(), " on ", flat.device()));
    }
  }
  if (sum != flat.count()) {
    throw Error(ErrorKind::usage, text("pack of ", sum, " elements into ", flat.count()));
  }
  run(
      stream, flat.device(), "pack", [=] { on_host::pack(flat, pieces); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.pack(flat, pieces, native); });
}

namespace on_host {
namespace {

template <class Sum, class T>
Sum widened(T value) {
  return static_cast<Sum>(static_cast<Accumulate<T>>(value));
}

template <class Function>
void for_each_element(View data, Function function) {
  dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    for (T& element : std::span(static_cast<T*>(data.data()), static_cast<std::size_t>(data.count())))
      element = static_cast<T>(function(static_cast<Accumulate<T>>(element)));
  });
}

}  // namespace

void divide(View data, std::int64_t divisor) {
  for_each_element(data, [divisor](auto value) { return value / static_cast<decltype(value)>(divisor); });
}

void scale(View data, double factor) {
  for_each_element(data, [factor](auto value) { return value * static_cast<decltype(value)>(factor); });
}

void fill(View data, double value) {
  for_each_element(data, [value](auto old) { return static_cast<decltype(old)>(value); });
}

void cast(View to, ConstView from) {
  dispatch(to.dtype(), [&]<class To>(std::type_identity<To>) {
    dispatch(from.dtype(), [&]<class From>(std::type_identity<From>) {
      if constexpr (!std::is_integral_v<To> && !std::is_integral_v<From>) {
        using Sum = std::conditional_t<std::is_same_v<To, double>, Accumulate<From>, Accumulate<To>>;
        const auto* in = static_cast<const From*>(from.data());
        auto* out = static_cast<To*>(to.data());
        for (std::int64_t i = 0; i < to.count(); ++i) out[i] = static_cast<To>(widened<Sum>(in[i]));
      }
    });
  });
}

void pack(View flat, std::span<const ConstView> pieces) {
  std::byte* to = flat.bytes();
  for (const ConstView& piece : pieces) {
    if (piece.empty()) continue;
    std::memcpy(to, piece.data(), piece.size_bytes());
    to += piece.size_bytes();
  }
}

}  // namespace on_host
}  // namespace weft::detail
