#pragma once
// The loop of an optimizer's step on the host: vectorized for the widest instructions of this machine
// (update_simd.cpp), or plain (update_plain.cpp). Both give the same bits. update_cuda.cu is the CUDA kernel
// with the same bits.

#include <cstdint>

#include "weft/core/dtype.hpp"
#include "zero/plan/step_factors.hpp"

namespace weft::detail {

/// How parameters are stored: f32, which need no master; 16 bits with an f32 master; bf16 with lower halves.
enum class Form : std::uint8_t { f32, bf16, f16, split };

/// Arrays of `count` elements; a pointer is null if the step does not use the array.
struct StepArrays {
  const void* gradient = nullptr;
  void* parameters = nullptr;
  void* master = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  std::int64_t count = 0;
  DataType gradient_type = DataType::f32;
  Form form = Form::f32;
};

void update(const StepArrays& arrays, const StepFactors& factors);

/// For builds without Highway, and as the reference in tests.
namespace plain {
void update(const StepArrays& arrays, const StepFactors& factors);
}  // namespace plain

/// An f32 in two halves: bits = (high << 16) + low, where low is signed. All NaN become one NaN.
struct SplitFloat {
  std::uint16_t high;
  std::int16_t low;
};

constexpr SplitFloat split(float value) {
  if (value != value) return {0x7fc0, 0};  // rounding could turn another NaN into a number
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x8000U) >> 16U), static_cast<std::int16_t>(bits)};
}

constexpr float joined(SplitFloat halves) {
  const auto high = static_cast<std::uint32_t>(halves.high) << 16U;
  return std::bit_cast<float>(high + static_cast<std::uint32_t>(std::int32_t{halves.low}));
}

}  // namespace weft::detail
