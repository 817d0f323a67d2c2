#pragma once
// What to say of a BLAS that is slower than it could be.
//
// OpenBLAS chooses its kernels by the processor's family and model. One that is newer than the library is
// taken for an old one (by Debian 12's 0.3.21 a Sapphire Rapids for a Prescott), and products take three
// times as long. OPENBLAS_CORETYPE names the kernels instead.
//
//   const std::string advice = blas_advice();                // "" where there is nothing to say
//   if (!advice.empty()) std::cerr << advice << '\n';        // on rank 0, once

#include <string>
#include <string_view>

namespace weft::examples {

/// Of kernels by OpenBLAS's name for them, on a processor with these instructions. Pure.
std::string blas_advice(std::string_view kernels, bool avx2, bool avx512);

/// Of this process: one line, or nothing. Nothing where the BLAS is none or the processor is no x86.
std::string blas_advice();

}  // namespace weft::examples
