#pragma once
// What the programs of figures share. Where kernels are emulated there is nothing to measure: they are tried alone, with little.

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "compression/power_sgd/low_rank.hpp"
#include "core/cuda/runtime.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"

namespace weft::test {

inline constexpr bool measures = WEFT_EMULATED == 0;

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Seconds of the device for `work`, of several turns.
inline double device_seconds(Stream& stream, const std::function<void()>& work, int turns = 1) {
  const auto cuda = detail::cuda::runtime();
  const auto begin = cuda->make_event(0, true);
  const auto end = cuda->make_event(0, true);
  const auto native = native_handle(stream);
  stream.run([&] { cuda->record(begin, native); });
  for (int turn = 0; turn < turns; ++turn) work();
  stream.run([&] { cuda->record(end, native); });
  stream.synchronize();
  const double seconds = cuda->seconds_between(begin, end) / turns;
  cuda->destroy(begin);
  cuda->destroy(end);
  return seconds;
}

inline void fill_with_noise(View memory, Stream& stream) {
  std::vector<float> noise(static_cast<std::size_t>(memory.count()));
  detail::draw(noise, 5);
  copy(memory, ConstView(std::span(noise)), stream);
  stream.synchronize();
}

}  // namespace weft::test
