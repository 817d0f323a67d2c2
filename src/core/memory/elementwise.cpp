#include "core/memory/elementwise.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>

#include "core/base/round_up.hpp"
#include "core/cuda/runtime.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::detail {
namespace {

/// Runs `on_host` or `on_device` in the order of `stream`, as its device demands.
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

void add(View to, ConstView from, Stream stream) {
  if (to.dtype() != from.dtype() || to.count() != from.count() || to.device() != from.device()) {
    throw Error(ErrorKind::usage, text("sum of ", to.count(), " ", to.dtype(), " on ", to.device(), " and ",
                                       from.count(), " ", from.dtype(), " on ", from.device()));
  }
  run(
      stream, to.device(), "add", [=] { on_host::add(to, from); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.add(to, from, native); });
}

void square_sums(View sums, ConstView data, std::int64_t block, Stream stream) {
  if (sums.dtype() != DataType::f64 || !is_floating(data.dtype()) || block < 1 ||
      sums.count() != ceil_div(data.count(), block) || sums.device() != data.device()) {
    throw Error(ErrorKind::usage,
                text("squares of ", data.count(), " ", data.dtype(), " on ", data.device(), " in blocks of ",
                     block, " into ", sums.count(), " ", sums.dtype(), " on ", sums.device()));
  }
  run(
      stream, data.device(), "squares", [=] { on_host::square_sums(sums, data, block); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.square_sums(sums, data, block, native); });
}

void count_bad(View counts, ConstView data, Stream stream) {
  if (counts.dtype() != DataType::i64 || counts.count() != 2 || !is_floating(data.dtype()) ||
      counts.device() != data.device()) {
    throw Error(ErrorKind::usage,
                text("count of bad values of ", data.dtype(), " on ", data.device(), " into ", counts.count(),
                     " ", counts.dtype(), " on ", counts.device()));
  }
  run(
      stream, data.device(), "count", [=] { on_host::count_bad(counts, data); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.count_bad(counts, data, native); });
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

void pack(View flat, RecycledVector<ConstView> pieces, Stream stream) {
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
  const auto all = make_recycled<const RecycledVector<ConstView>>(std::move(pieces));
  run(
      stream, flat.device(), "pack", [=] { on_host::pack(flat, *all); },
      [=](cuda::Runtime& cuda, cuda::NativeStream native) { cuda.pack(flat, *all, native); });
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

void add(View to, ConstView from) {
  dispatch(to.dtype(), [&]<class T>(std::type_identity<T>) {
    auto* sum = static_cast<T*>(to.data());
    const auto* other = static_cast<const T*>(from.data());
    for (std::int64_t i = 0; i < to.count(); ++i)
      sum[i] = static_cast<T>(static_cast<Accumulate<T>>(sum[i]) + static_cast<Accumulate<T>>(other[i]));
  });
}

void square_sums(View sums, ConstView data, std::int64_t block) {
  constexpr std::int64_t partials = 256;
  dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      const auto* in = static_cast<const T*>(data.data());
      std::int64_t begin = 0;
      for (double& sum : sums.as<double>()) {
        double partial[partials] = {};
        const std::int64_t end = std::min(begin + block, data.count());
        for (; begin < end; begin += partials) {
          const std::int64_t some = std::min(partials, end - begin);
          for (std::int64_t i = 0; i < some; ++i) {
            const auto value = widened<double>(in[begin + i]);
            partial[i] += value * value;
          }
        }
        begin = end;
        for (std::int64_t half = partials / 2; half > 0; half /= 2) {
          for (std::int64_t i = 0; i < half; ++i) partial[i] += partial[i + half];
        }
        sum = partial[0];
      }
    }
  });
}

namespace {

/// The bits of infinity without the sign; a magnitude with greater bits is NaN. The integers are signed
/// because SSE2 compares only those.
template <class T>
struct Infinity;
template <>
struct Infinity<Half> {
  static constexpr std::int16_t bits = 0x7c00;
};
template <>
struct Infinity<BFloat16> {
  static constexpr std::int16_t bits = 0x7f80;
};
template <>
struct Infinity<float> {
  static constexpr std::int32_t bits = 0x7f800000;
};
template <>
struct Infinity<double> {
  static constexpr std::int64_t bits = 0x7ff0000000000000;
};

template <class T>
auto magnitude(const T& element) {
  using Bits = std::remove_const_t<decltype(Infinity<T>::bits)>;
  return static_cast<Bits>(std::bit_cast<Bits>(element) & std::numeric_limits<Bits>::max());
}

/// Whether all elements are finite. There are so few that their count fits an integer of an element's width,
/// so that the loop vectorizes.
template <class T>
bool all_finite(std::span<const T> few) {
  std::remove_const_t<decltype(Infinity<T>::bits)> bad = 0;
  for (const T& element : few)
    bad = static_cast<decltype(bad)>(bad + (magnitude(element) >= Infinity<T>::bits ? 1 : 0));
  return bad == 0;
}

}  // namespace

void count_bad(View counts, ConstView data) {
  constexpr std::size_t few = 1 << 14;
  std::array<std::int64_t, 2> total{};
  dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      std::span all(static_cast<const T*>(data.data()), static_cast<std::size_t>(data.count()));
      for (; !all.empty(); all = all.subspan(std::min(few, all.size()))) {
        const auto some = all.first(std::min(few, all.size()));
        if (all_finite(some)) continue;
        for (const T& element : some) {
          total[0] += magnitude(element) > Infinity<T>::bits ? 1 : 0;
          total[1] += magnitude(element) == Infinity<T>::bits ? 1 : 0;
        }
      }
    }
  });
  for (std::size_t i = 0; i < 2; ++i)  // two threads may count parts of one tensor
    std::atomic_ref(counts.as<std::int64_t>()[i]).fetch_add(total[i], std::memory_order_relaxed);
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
