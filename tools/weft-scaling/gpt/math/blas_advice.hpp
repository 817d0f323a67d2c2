#pragma once
// A warning about a BLAS that is slower than necessary.
//
// OpenBLAS chooses its kernels by the family and model of the processor. It takes a processor that is newer
// than the library for an old one (0.3.21 of Debian 12 takes a Sapphire Rapids for a Prescott), and products
// take three times as long. The variable OPENBLAS_CORETYPE names the kernels instead.
//
//   const std::string advice = blas_advice();                // empty if all is well
//   if (!advice.empty()) std::cerr << advice << '\n';        // on rank 0, once

#include <string>
#include <string_view>

namespace weft::examples {

/// The warning for kernels with this OpenBLAS name on a processor with these instructions. Pure.
std::string blas_advice(std::string_view kernels, bool avx2, bool avx512);

/// The warning for this process: one line, or empty. Empty without a BLAS, or if the processor is not x86.
std::string blas_advice();

}  // namespace weft::examples
