// Highway compiles this file once for every instruction set and picks one at run time.

#include "collectives/algorithms/sum_kernel.hpp"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/algorithms/sum_kernel.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::detail::HWY_NAMESPACE {
namespace {  // also so that what the loop calls is inlined: a function that a shared library exports is not

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

HWY_ATTR const float* source(std::span<const std::byte* const> sources, std::size_t r, std::size_t i) {
  return reinterpret_cast<const float*>(sources[r]) + i;
}

// How far ahead of the sums lines are fetched. A peer's line that is read first and written later crosses
// between the cores twice, once to be shared and once to be owned; so it is asked for with the intent to
// write.
constexpr std::size_t ahead = 4096 / sizeof(float);

HWY_ATTR void fetch_to_write(const float* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

// All loads of a group come before its stores, so destinations may alias sources; four vectors in flight hide
// the latency of the additions, which must stay in rank order.
template <class Finish>
HWY_ATTR void sum_groups(std::span<const std::byte* const> sources, Destinations destinations,
                         std::size_t count, Finish finish) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    auto a = hn::LoadU(d, source(sources, 0, i));
    auto b = hn::LoadU(d, source(sources, 0, i + lanes));
    auto c = hn::LoadU(d, source(sources, 0, i + 2 * lanes));
    auto e = hn::LoadU(d, source(sources, 0, i + 3 * lanes));
    for (std::size_t r = 1; r < sources.size(); ++r) {
      a = hn::Add(a, hn::LoadU(d, source(sources, r, i)));
      b = hn::Add(b, hn::LoadU(d, source(sources, r, i + lanes)));
      c = hn::Add(c, hn::LoadU(d, source(sources, r, i + 2 * lanes)));
      e = hn::Add(e, hn::LoadU(d, source(sources, r, i + 3 * lanes)));
    }
    a = finish(a);
    b = finish(b);
    c = finish(c);
    e = finish(e);
    for (std::byte* const destination : destinations.streamed) {
      float* out = reinterpret_cast<float*>(destination) + i;
      for (std::size_t line = ahead; line < ahead + 4 * lanes && i + line < count; line += 16)
        __builtin_prefetch(out + line);
      hn::Stream(a, d, out);
      hn::Stream(b, d, out + lanes);
      hn::Stream(c, d, out + 2 * lanes);
      hn::Stream(e, d, out + 3 * lanes);
    }
    for (std::byte* const destination : destinations.cached) {
      float* out = reinterpret_cast<float*>(destination) + i;
      for (std::size_t line = ahead; line < ahead + 4 * lanes && i + line < count; line += 16)
        fetch_to_write(out + line);
      hn::StoreU(a, d, out);
      hn::StoreU(b, d, out + lanes);
      hn::StoreU(c, d, out + 2 * lanes);
      hn::StoreU(e, d, out + 3 * lanes);
    }
  }
  if (!destinations.streamed.empty()) hwy::FlushStream();  // before anybody is told that the sums are there
  const auto rest = [&](auto tag) HWY_ATTR {
    const std::size_t width = hn::Lanes(tag);
    for (; i + width <= count; i += width) {
      auto sum = hn::LoadU(tag, source(sources, 0, i));
      for (std::size_t r = 1; r < sources.size(); ++r)
        sum = hn::Add(sum, hn::LoadU(tag, source(sources, r, i)));
      sum = finish(sum);
      for (const auto& some : {destinations.cached, destinations.streamed}) {
        for (std::byte* const destination : some)
          hn::StoreU(sum, tag, reinterpret_cast<float*>(destination) + i);
      }
    }
  };
  rest(d);
  rest(hn::CappedTag<float, 4>());
  rest(hn::CappedTag<float, 1>());
}

// Streaming stores take whole vectors at aligned addresses only.
HWY_ATTR bool aligned(std::span<std::byte* const> destinations) {
  const std::size_t bytes = hn::Lanes(Tag()) * sizeof(float);
  return std::ranges::all_of(destinations, [bytes](const std::byte* destination) {
    return reinterpret_cast<std::uintptr_t>(destination) % bytes == 0;
  });
}

HWY_ATTR void sum(std::span<const std::byte* const> sources, Destinations destinations, std::size_t count,
                  float divisor) {
  std::vector<std::byte*> all;
  if (!aligned(destinations.streamed)) {
    all.assign(destinations.cached.begin(), destinations.cached.end());
    all.insert(all.end(), destinations.streamed.begin(), destinations.streamed.end());
    destinations = {all};
  }
  if (divisor == 1.0F) {
    sum_groups(sources, destinations, count, [](auto v) HWY_ATTR { return v; });
  } else {
    sum_groups(sources, destinations, count, [divisor](auto v) HWY_ATTR {
      return hn::Div(v, hn::Set(hn::DFromV<decltype(v)>(), divisor));
    });
  }
}

}  // namespace
}  // namespace weft::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::detail {

HWY_EXPORT(sum);

void sum_f32(std::span<const std::byte* const> sources, Destinations destinations, std::int64_t count,
             float divisor) {
  HWY_DYNAMIC_DISPATCH(sum)(sources, destinations, static_cast<std::size_t>(count), divisor);
}

}  // namespace weft::detail
#endif
