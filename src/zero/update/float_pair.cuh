#pragma once
// The arithmetic of an optimizer's step for devices whose f64 is slow (1/16 of f32 or less): each number is the sum of two f32, with a bound of its
// error, and the result is the host's bit by bit or NaN.
//
//   1. product() and sum() lose less than 2^-44 of their operands (Dekker 1971; Shewchuk 1997): a number has 48 bits.
//   2. The bound grows with each of them, by what the host's f64 may lose, too.
//   3. narrow() rounds to f32. Where a number within the bound would be rounded otherwise it gives NaN, which what is computed from it keeps, and the
//      caller computes that result again in f64. It is so for about one number in 2^18, but for one in 25 where a factor is short in decimal digits:
//      0.9 of an f32 lies half-way between two others, to 54 bits, once in ten.
//
// About 25 operations of f32 for one of f64.

#include <cuda_runtime_api.h>

namespace weft::detail::cuda::kernels {

struct FloatPair {
  float high;
  float low;
  float error;
};

struct PairLane {
  using Wide = FloatPair;
  using Narrow = float;
  using Constant = FloatPair;
  using NarrowConstant = float;

  static __device__ FloatPair all(double value) {
    const float high = __double2float_rn(value);
    const float low = __double2float_rn(__dsub_rn(value, static_cast<double>(high)));
    return {high, low, __fmul_rn(fabsf(high), 0x1p-44F)};
  }
  static __device__ float narrow_all(double value) { return __double2float_rn(value); }
  static __device__ FloatPair wide(float value) { return {value, 0, 0}; }

  static __device__ float narrow(const FloatPair& value) {
    if (value.low == 0 && value.error == 0) return value.high;  // a zero keeps its sign
    const float least = __fadd_rn(value.high, __fsub_rn(value.low, value.error));
    const float most = __fadd_rn(value.high, __fadd_rn(value.low, value.error));
    return least == most ? most : __uint_as_float(0x7fc00000U);
  }

  static __device__ FloatPair product(const FloatPair& a, const FloatPair& b) {
    const float high = __fmul_rn(a.high, b.high);
    float low = __fmaf_rn(a.high, b.high, -high);
    low = __fmaf_rn(a.high, b.low, __fmaf_rn(a.low, b.high, low));
    FloatPair result = joined(high, low);
    float error = __fmul_rn(fabsf(result.high), lost);
    error = __fmaf_rn(magnitude(a), b.error, error);
    error = __fmaf_rn(magnitude(b), a.error, error);
    // Digits below f32's range are lost.
    const bool is_zero = is_exactly_zero(a) || is_exactly_zero(b);
    result.error = is_zero ? 0 : fabsf(result.high) < 0x1p-90F ? __fadd_rn(error, 0x1p-110F) : error;
    return result;
  }
  static __device__ FloatPair sum(const FloatPair& a, const FloatPair& b) {
    const float high = __fadd_rn(a.high, b.high);
    const float of_b = __fsub_rn(high, a.high);
    float low = __fadd_rn(__fsub_rn(a.high, __fsub_rn(high, of_b)), __fsub_rn(b.high, of_b));
    low = __fadd_rn(low, __fadd_rn(a.low, b.low));
    FloatPair result = joined(high, low);
    result.error = __fmaf_rn(__fadd_rn(fabsf(a.high), fabsf(b.high)), lost, __fadd_rn(a.error, b.error));
    return result;
  }
  static __device__ FloatPair plus_product(const FloatPair& to, const FloatPair& a, const FloatPair& b) {
    return sum(to, product(a, b));
  }
  static __device__ FloatPair minus_product(const FloatPair& from, const FloatPair& a, const FloatPair& b) {
    return sum(from, product({-a.high, -a.low, a.error}, b));
  }

  static __device__ float sum(float a, float b) { return __fadd_rn(a, b); }
  static __device__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
  static __device__ float root(float value) { return __fsqrt_rn(value); }

 private:
  static constexpr float lost = 0x1p-43F;  // of an operation's operands, and the rounding of bounds with it

  static __device__ bool is_exactly_zero(const FloatPair& a) {
    return a.high == 0 && a.low == 0 && a.error == 0;
  }
  /// A little more, for the lower part and the error itself.
  static __device__ float magnitude(const FloatPair& a) {
    return __fmul_rn(__fadd_rn(fabsf(a.high), a.error), 1.001F);
  }
  static __device__ FloatPair joined(float high, float low) {
    if (low == 0) return {high, 0, 0};  // a zero keeps its sign
    const float sum = __fadd_rn(high, low);
    return {sum, __fsub_rn(low, __fsub_rn(sum, high)), 0};
  }
};

}  // namespace weft::detail::cuda::kernels
