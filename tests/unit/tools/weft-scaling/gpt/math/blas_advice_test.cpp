#include "weft-scaling/gpt/math/blas_advice.hpp"

#include <gtest/gtest.h>

namespace weft::examples {
namespace {

TEST(BlasAdvice, NamesTheKernelsThatUseWhatTheProcessorHas) {
  const std::string best = blas_advice("Prescott", true, true);
  EXPECT_NE(best.find("its Prescott kernels"), std::string::npos) << best;
  EXPECT_TRUE(best.ends_with("set OPENBLAS_CORETYPE=SKYLAKEX")) << best;
  EXPECT_TRUE(blas_advice("Nehalem", true, false).ends_with("set OPENBLAS_CORETYPE=Haswell"));
}

TEST(BlasAdvice, IsSilentWhereKernelsUseVectorsOrTheProcessorHasNone) {
  for (const char* kernels :
       {"Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", ""})
    EXPECT_EQ(blas_advice(kernels, true, true), "") << kernels;
  EXPECT_EQ(blas_advice("Prescott", false, false), "");
}

}  // namespace
}  // namespace weft::examples
