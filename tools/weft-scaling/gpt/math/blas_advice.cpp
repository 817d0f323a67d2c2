#include "weft-scaling/gpt/math/blas_advice.hpp"

#include <algorithm>
#include <array>

#include "weft/core/error.hpp"

#if WEFT_HAS_BLAS
extern "C" char* openblas_get_corename();  // not every cblas.h declares it
#endif

namespace weft::examples {
namespace {

// The names of kernels without AVX.
constexpr std::array<std::string_view, 16> old_kernels{
    "Katmai",     "Coppermine", "Northwood", "Prescott", "Banias",       "Atom",      "Core2", "Penryn",
    "Dunnington", "Nehalem",    "Athlon",    "Opteron",  "Opteron_SSE3", "Barcelona", "Nano",  "Bobcat"};

}  // namespace

std::string blas_advice(std::string_view kernels, bool avx2, bool avx512) {
  if (!avx2 || std::ranges::find(old_kernels, kernels) == old_kernels.end()) return {};
  return text("OpenBLAS does not know this processor and computes with its ", kernels,
              " kernels, about three times slower than it could: set OPENBLAS_CORETYPE=",
              avx512 ? "SKYLAKEX" : "Haswell");
}

std::string blas_advice() {
#if WEFT_HAS_BLAS && defined(__x86_64__)
  return blas_advice(openblas_get_corename(), __builtin_cpu_supports("avx2") != 0,
                     __builtin_cpu_supports("avx512vl") != 0);
#else
  return {};
#endif
}

}  // namespace weft::examples
