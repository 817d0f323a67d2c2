#pragma once
// Stands in for CUDA's header (cuda_runtime_api.h beside it).

#include <bit>

#include "cuda_runtime_api.h"
#include "weft/core/dtype.hpp"

struct __half {
  unsigned short bits;
};

inline float __half2float(__half value) {
  return static_cast<float>(std::bit_cast<weft::Half>(value));
}
inline __half __float2half_rn(float value) {
  return std::bit_cast<__half>(weft::Half(value));
}
