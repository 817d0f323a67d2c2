#pragma once
// The instruction sets for which Highway does not compile weft's loops, for HWY_DISABLED_TARGETS. SSSE3 and SSE4: no
// processor that trains a model stops there. AVX-512 under sanitizers, which make a loop several times slower to
// compile: it is the same source as AVX2's, only wider. Include it before <hwy/...>.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_SIMD_LEFT_OUT (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define WEFT_SIMD_LEFT_OUT (HWY_SSSE3 | HWY_SSE4)
#endif
