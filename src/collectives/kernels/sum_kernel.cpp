// Highway compiles this file once for every instruction set and picks one at run time.

#include <algorithm>
#include <cmath>

#include "collectives/kernels/reduce_kernel.hpp"
#include "core/base/simd_targets.hpp"
#include "weft/core/recycled.hpp"

#define HWY_DISABLED_TARGETS WEFT_SIMD_LEFT_OUT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/kernels/sum_kernel.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::detail::HWY_NAMESPACE {
namespace {  // also so that what the loop calls is inlined: a function that a shared library exports is not

namespace hn = hwy::HWY_NAMESPACE;

/// Elements in memory and the vectors of floats they are summed in. Each gives the bits that the conversions
/// of core/dtype.hpp give, by the same arithmetic.
struct F32 {
  using T = float;
  static constexpr bool streams = true;
  template <class D>
  static HWY_ATTR hn::Vec<D> load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <class D>
  static HWY_ATTR void store(D d, hn::Vec<D> value, T* to) {
    hn::StoreU(value, d, to);
  }
  template <class D>
  static HWY_ATTR void stream(D d, hn::Vec<D> value, T* to) {
    hn::Stream(value, d, to);
  }
};

template <class Bits>
struct SixteenBits {
  using T = std::uint16_t;
  static constexpr bool streams = false;  // half vectors cannot
  template <class D>
  static HWY_ATTR hn::Vec<D> load(D d, const T* from) {
    const hn::RebindToUnsigned<D> u32;
    return Bits::widen(d, hn::PromoteTo(u32, hn::LoadU(hn::Rebind<std::uint16_t, D>(), from)));
  }
  template <class D>
  static HWY_ATTR void store(D d, hn::Vec<D> value, T* to) {
    const hn::Rebind<std::uint16_t, D> u16;
    hn::StoreU(hn::DemoteTo(u16, hn::BitCast(hn::RebindToSigned<D>(), Bits::narrow(d, value))), u16, to);
  }
  template <class D>
  static HWY_ATTR void stream(D d, hn::Vec<D> value, T* to) {
    store(d, value, to);
  }
};

// Unsigned words here stay below 2^31 wherever they are compared, so signed comparisons do.
template <class D, class V>
HWY_ATTR auto above(D, V words, std::int32_t limit) {
  const hn::RebindToSigned<D> i32;
  const hn::RebindToUnsigned<D> u32;
  return hn::RebindMask(u32, hn::Gt(hn::BitCast(i32, words), hn::Set(i32, limit)));
}

struct BFloat16Bits {
  template <class D, class V>
  static HWY_ATTR hn::Vec<D> widen(D d, V words) {
    return hn::BitCast(d, hn::ShiftLeft<16>(words));
  }
  template <class D>
  static HWY_ATTR auto narrow(D d, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> u32;
    const auto word = hn::BitCast(u32, value);
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(u32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(word, hn::Set(u32, 0x7fff)), odd));
    const auto nan = hn::Or(hn::ShiftRight<16>(word), hn::Set(u32, 0x40));
    return hn::IfThenElse(above(d, hn::And(word, hn::Set(u32, 0x7fffffff)), 0x7f800000), nan, rounded);
  }
};

struct HalfBits {
  template <class D, class V>
  static HWY_ATTR hn::Vec<D> widen(D d, V words) {
    const hn::RebindToUnsigned<D> u32;
    const auto sign = hn::ShiftLeft<16>(hn::And(words, hn::Set(u32, 0x8000)));
    const auto shifted = hn::ShiftLeft<13>(hn::And(words, hn::Set(u32, 0x7fff)));
    const auto finite = hn::BitCast(u32, hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112F)));
    const auto infinite = hn::Or(shifted, hn::Set(u32, 0x7f800000));
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(above(d, shifted, 0x0f7fffff), infinite, finite)));
  }
  template <class D>
  static HWY_ATTR auto narrow(D d, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> u32;
    const auto word = hn::BitCast(u32, value);
    const auto sign = hn::And(hn::ShiftRight<16>(word), hn::Set(u32, 0x8000));
    const auto magnitude = hn::And(word, hn::Set(u32, 0x7fffffff));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(u32, 1));
    const auto normal = hn::ShiftRight<13>(
        hn::Sub(hn::Add(hn::Add(magnitude, hn::Set(u32, 0xfff)), odd), hn::Set(u32, 0x38000000)));
    const auto is_normal = above(d, magnitude, 0x387fffff);
    const auto small = hn::BitCast(d, hn::IfThenZeroElse(is_normal, magnitude));
    const auto subnormal =
        hn::Sub(hn::BitCast(u32, hn::Add(small, hn::Set(d, 0.5F))), hn::Set(u32, 0x3f000000));
    auto bits = hn::IfThenElse(is_normal, normal, subnormal);
    bits = hn::IfThenElse(above(d, magnitude, 0x477fefff), hn::Set(u32, 0x7c00), bits);
    bits = hn::IfThenElse(above(d, magnitude, 0x7f800000), hn::Set(u32, 0x7e00), bits);
    return hn::Or(sign, bits);
  }
};

// How far ahead of the sums lines are fetched. A peer's line that is read first and written later crosses
// between the cores twice, once to be shared and once to be owned; so it is asked for with the intent to
// write.
constexpr std::size_t ahead_bytes = 4096;
constexpr std::size_t line_bytes = 64;

HWY_ATTR void fetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

template <class Memory, class Finish>
class Sum {
 public:
  using T = typename Memory::T;

  HWY_ATTR Sum(std::span<const std::byte* const> sources, Destinations destinations, std::size_t count,
               Finish finish)
      : sources_(sources), destinations_(destinations), count_(count), finish_(finish) {}

  HWY_ATTR void run() {
    const hn::ScalableTag<float> d;
    std::size_t i = groups(d);
    // Before a peer is told that the sums are there.
    if (!destinations_.streamed.empty()) hwy::FlushStream();
    i = rest(d, i);
    i = rest(hn::CappedTag<float, 4>(), i);
    rest(hn::CappedTag<float, 1>(), i);
  }

 private:
  HWY_ATTR const T* source(std::size_t r, std::size_t i) const {
    return reinterpret_cast<const T*>(sources_[r]) + i;
  }

  // All loads of a group come before its stores, so destinations may alias sources; four vectors in flight
  // hide the latency of the additions, which must stay in rank order.
  template <class D>
  HWY_ATTR std::size_t groups(D d) const {
    const std::size_t width = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + 4 * width <= count_; i += 4 * width) {
      auto a = Memory::load(d, source(0, i));
      auto b = Memory::load(d, source(0, i + width));
      auto c = Memory::load(d, source(0, i + 2 * width));
      auto e = Memory::load(d, source(0, i + 3 * width));
      for (std::size_t r = 1; r < sources_.size(); ++r) {
        a = hn::Add(a, Memory::load(d, source(r, i)));
        b = hn::Add(b, Memory::load(d, source(r, i + width)));
        c = hn::Add(c, Memory::load(d, source(r, i + 2 * width)));
        e = hn::Add(e, Memory::load(d, source(r, i + 3 * width)));
      }
      a = finish_(d, a);
      b = finish_(d, b);
      c = finish_(d, c);
      e = finish_(d, e);
      for (std::byte* const destination : destinations_.streamed) {
        T* out = reinterpret_cast<T*>(destination) + i;
        fetch(out, i, width, [](const T* line) HWY_ATTR { __builtin_prefetch(line); });
        Memory::stream(d, a, out);
        Memory::stream(d, b, out + width);
        Memory::stream(d, c, out + 2 * width);
        Memory::stream(d, e, out + 3 * width);
      }
      for (std::byte* const destination : destinations_.cached) {
        T* out = reinterpret_cast<T*>(destination) + i;
        fetch(out, i, width, [](const T* line) HWY_ATTR { fetch_to_write(line); });
        Memory::store(d, a, out);
        Memory::store(d, b, out + width);
        Memory::store(d, c, out + 2 * width);
        Memory::store(d, e, out + 3 * width);
      }
    }
    return i;
  }

  template <class Fetch>
  HWY_ATTR void fetch(const T* out, std::size_t i, std::size_t width, Fetch fetch) const {
    constexpr std::size_t ahead = ahead_bytes / sizeof(T);
    for (std::size_t line = ahead; line < ahead + 4 * width && i + line < count_;
         line += line_bytes / sizeof(T))
      fetch(out + line);
  }

  template <class D>
  HWY_ATTR std::size_t rest(D d, std::size_t i) const {
    const std::size_t width = hn::Lanes(d);
    for (; i + width <= count_; i += width) {
      auto sum = Memory::load(d, source(0, i));
      for (std::size_t r = 1; r < sources_.size(); ++r) sum = hn::Add(sum, Memory::load(d, source(r, i)));
      sum = finish_(d, sum);
      for (const auto& some : {destinations_.cached, destinations_.streamed}) {
        for (std::byte* const destination : some)
          Memory::store(d, sum, reinterpret_cast<T*>(destination) + i);
      }
    }
    return i;
  }

  std::span<const std::byte* const> sources_;
  Destinations destinations_;
  std::size_t count_;
  Finish finish_;
};

// Streaming stores take whole vectors at aligned addresses only.
HWY_ATTR bool aligned(std::span<std::byte* const> destinations) {
  const std::size_t bytes = hn::Lanes(hn::ScalableTag<float>()) * sizeof(float);
  return std::ranges::all_of(destinations, [bytes](const std::byte* destination) {
    return reinterpret_cast<std::uintptr_t>(destination) % bytes == 0;
  });
}

struct AsItIs {
  template <class D>
  HWY_ATTR hn::Vec<D> operator()(D, hn::Vec<D> sum) const {
    return sum;
  }
};

struct Divide {
  float divisor;
  template <class D>
  HWY_ATTR hn::Vec<D> operator()(D d, hn::Vec<D> sum) const {
    return hn::Div(sum, hn::Set(d, divisor));
  }
};

struct Multiply {
  float factor;
  template <class D>
  HWY_ATTR hn::Vec<D> operator()(D d, hn::Vec<D> sum) const {
    return hn::Mul(sum, hn::Set(d, factor));
  }
};

/// Whether x * (1 / divisor) has the bits of x / divisor for every x: both round the same number then.
bool is_power_of_two(float divisor) {
  int exponent = 0;
  return std::frexp(divisor, &exponent) == 0.5F && exponent < 127;
}

template <class Memory>
HWY_ATTR void sum_of(std::span<const std::byte* const> sources, Destinations destinations, std::size_t count,
                     float divisor) {
  RecycledVector<std::byte*> all;
  if (!destinations.streamed.empty() && (!Memory::streams || !aligned(destinations.streamed))) {
    all.assign(destinations.cached.begin(), destinations.cached.end());
    all.insert(all.end(), destinations.streamed.begin(), destinations.streamed.end());
    destinations = {all};
  }
  if (divisor == 1.0F) {
    Sum<Memory, AsItIs>(sources, destinations, count, {}).run();
  } else if (is_power_of_two(divisor)) {
    // In the second-level cache a mean of two ranks takes a quarter longer where it divides.
    Sum<Memory, Multiply>(sources, destinations, count, {1.0F / divisor}).run();
  } else {
    Sum<Memory, Divide>(sources, destinations, count, {divisor}).run();
  }
}

HWY_ATTR void sum(DataType dtype, std::span<const std::byte* const> sources, Destinations destinations,
                  std::size_t count, float divisor) {
  if (dtype == DataType::f32) return sum_of<F32>(sources, destinations, count, divisor);
  if (dtype == DataType::bf16)
    return sum_of<SixteenBits<BFloat16Bits>>(sources, destinations, count, divisor);
  return sum_of<SixteenBits<HalfBits>>(sources, destinations, count, divisor);
}

}  // namespace
}  // namespace weft::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::detail {

HWY_EXPORT(sum);

void sum_floats(DataType dtype, std::span<const std::byte* const> sources, Destinations destinations,
                std::int64_t count, float divisor) {
  HWY_DYNAMIC_DISPATCH(sum)(dtype, sources, destinations, static_cast<std::size_t>(count), divisor);
}

}  // namespace weft::detail
#endif
