#pragma once
// Stands in for CUDA's header (cuda_runtime_api.h beside it).

#include <bit>

#include "cuda_runtime_api.h"
#include "weft/core/dtype.hpp"

struct __nv_bfloat16 {
  unsigned short bits;
};

inline float __bfloat162float(__nv_bfloat16 value) {
  return static_cast<float>(std::bit_cast<weft::BFloat16>(value));
}
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return std::bit_cast<__nv_bfloat16>(weft::BFloat16(value));
}
