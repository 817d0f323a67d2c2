#include "collectives/kernels/reduce_kernel.hpp"

#include <algorithm>
#include <cstring>

namespace weft::detail {
namespace {

// A block of sums stays in the first-level cache while all sources pass through it and all destinations are
// written from it: every byte of memory is touched once, and any destination may alias any source.
constexpr std::int64_t block = 2048;
constexpr std::size_t copied_block = 8192;

template <class T>
Accumulate<T> widen(T value) {
  return static_cast<Accumulate<T>>(value);
}

template <class T>
T narrow(Accumulate<T> value) {
  return static_cast<T>(value);
}

template <class T, class Combine>
void fold_with(Accumulate<T>* sums, std::span<const std::byte* const> sources, std::int64_t begin,
               std::int64_t count, Combine combine) {
  const T* first = reinterpret_cast<const T*>(sources[0]) + begin;
  for (std::int64_t i = 0; i < count; ++i) sums[i] = widen<T>(first[i]);
  for (const std::byte* source : sources.subspan(1)) {
    const T* next = reinterpret_cast<const T*>(source) + begin;
    for (std::int64_t i = 0; i < count; ++i) sums[i] = combine(sums[i], widen<T>(next[i]));
  }
}

// Integers wrap, as the peers' do; signed overflow would be undefined.
template <class A>
A add(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <class A>
A multiply(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return a * b;
  }
}

template <class T>
void fold_bits(Accumulate<T>* bits, std::span<const std::byte* const> sources, std::int64_t begin,
               std::int64_t count, ReduceOp op) {
  using A = Accumulate<T>;
  if (op == ReduceOp::band)
    return fold_with<T>(bits, sources, begin, count, [](A a, A b) { return static_cast<A>(a & b); });
  if (op == ReduceOp::bor)
    return fold_with<T>(bits, sources, begin, count, [](A a, A b) { return static_cast<A>(a | b); });
  fold_with<T>(bits, sources, begin, count, [](A a, A b) { return static_cast<A>(a ^ b); });
}

template <class T>
void fold(Accumulate<T>* sums, std::span<const std::byte* const> sources, std::int64_t begin,
          std::int64_t count, ReduceOp op) {
  using A = Accumulate<T>;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return fold_with<T>(sums, sources, begin, count, [](A a, A b) { return add(a, b); });
    case ReduceOp::prod:
      return fold_with<T>(sums, sources, begin, count, [](A a, A b) { return multiply(a, b); });
    // NaN in either operand is kept: a poisoned gradient must not vanish in a maximum.
    case ReduceOp::min:
      return fold_with<T>(sums, sources, begin, count, [](A a, A b) { return b < a || b != b ? b : a; });
    case ReduceOp::max:
      return fold_with<T>(sums, sources, begin, count, [](A a, A b) { return a < b || b != b ? b : a; });
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      if constexpr (std::is_integral_v<A>) return fold_bits<T>(sums, sources, begin, count, op);
  }
}

template <class T>
void reduce_typed(std::span<const std::byte* const> sources, Destinations destinations, std::int64_t count,
                  ReduceOp op, double divided_by) {
  using A = Accumulate<T>;
  alignas(64) A sums[block];
  alignas(64) T result[block];
  const A divisor = static_cast<A>(divided_by);
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    fold<T>(sums, sources, begin, length, op);
    if (op == ReduceOp::avg) {
      for (std::int64_t i = 0; i < length; ++i) sums[i] = static_cast<A>(sums[i] / divisor);
    }
    const T* ready = nullptr;
    if constexpr (std::is_same_v<T, A>) {
      ready = sums;
    } else {
      for (std::int64_t i = 0; i < length; ++i) result[i] = narrow<T>(sums[i]);
      ready = result;
    }
    for (const auto& some : {destinations.cached, destinations.streamed}) {
      for (std::byte* destination : some) {
        std::memcpy(reinterpret_cast<T*>(destination) + begin, ready,
                    static_cast<std::size_t>(length) * sizeof(T));
      }
    }
  }
}

}  // namespace

void reduce(std::span<const std::byte* const> sources, Destinations destinations, std::int64_t count,
            DataType dtype, ReduceOp op, double divisor) {
  if (divisor == 0) divisor = static_cast<double>(sources.size());
  const bool in_place = destinations.cached.size() == 1 && destinations.streamed.empty();
  const bool divides = op == ReduceOp::avg && divisor != 1;
  if (sources.size() == 1 && !divides && in_place && sources[0] == destinations.cached[0]) return;
#if WEFT_HAS_HIGHWAY
  const bool floats = dtype == DataType::f32 || dtype == DataType::f16 || dtype == DataType::bf16;
  if (floats && (op == ReduceOp::sum || op == ReduceOp::avg)) {
    return sum_floats(dtype, sources, destinations, count, divides ? static_cast<float>(divisor) : 1.0F);
  }
#endif
  dispatch(dtype, [&]<class T>(std::type_identity<T>) {
    reduce_typed<T>(sources, destinations, count, op, divisor);
  });
}

void copy(const std::byte* source, Destinations destinations, std::size_t bytes) {
  std::size_t done = 0;
#if WEFT_HAS_HIGHWAY
  if (!destinations.streamed.empty()) {  // as a sum of one, which moves any bits
    sum_floats(DataType::f32, {&source, 1}, destinations, static_cast<std::int64_t>(bytes / sizeof(float)),
               1.0F);
    done = bytes / sizeof(float) * sizeof(float);
  }
#endif
  const bool single = destinations.cached.size() + destinations.streamed.size() == 1;
  const std::size_t step = single ? bytes : copied_block;
  for (; done < bytes; done += step) {
    const std::size_t length = std::min(step, bytes - done);
    for (const auto& some : {destinations.cached, destinations.streamed}) {
      for (std::byte* destination : some) std::memmove(destination + done, source + done, length);
    }
  }
}

}  // namespace weft::detail
