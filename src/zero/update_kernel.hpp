#pragma once
// The loop of an optimizer's step, with the widest instructions this machine has, or plain: bit by bit the
// same.

#include <cstdint>

#include "weft/core/dtype.hpp"
#include "zero/step_factors.hpp"

namespace weft::detail {

/// How parameters lie: f32, which are masters themselves; 16 bits with an f32 master; bf16 with low halves.
enum class Form : std::uint8_t { f32, bf16, f16, split };

/// `count` elements of each; null where there are none.
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

/// For machines without Highway, and to compare with.
namespace plain {
void update(const StepArrays& arrays, const StepFactors& factors);
}  // namespace plain

/// The signed halves: bits = (high << 16) + low. NaN keeps none of its bits.
struct SplitFloat {
  std::uint16_t high;
  std::int16_t low;
};

constexpr SplitFloat split(float value) {
  if (value != value) return {0x7fc0, 0};  // rounding could carry it into another number
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return {static_cast<std::uint16_t>((bits + 0x8000U) >> 16U), static_cast<std::int16_t>(bits)};
}

constexpr float joined(SplitFloat halves) {
  const auto high = static_cast<std::uint32_t>(halves.high) << 16U;
  return std::bit_cast<float>(high + static_cast<std::uint32_t>(std::int32_t{halves.low}));
}

}  // namespace weft::detail
