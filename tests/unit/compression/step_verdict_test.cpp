#include "compression/step_verdict.hpp"

#include <gtest/gtest.h>

namespace weft::detail {
namespace {

TEST(StepVerdict, CountsAStepUnlessATaskOfItFoundSomethingBad) {
  StepVerdict verdict;
  EXPECT_FALSE(verdict.settle()) << "there was no step";
  Stream wire = Stream::queued();
  const auto step = [&](bool bad) {
    wire.run([] {});
    verdict.submitted(wire);
    wire.run([&verdict, bad] {
      if (bad) verdict.found_bad();
    });
    verdict.submitted(wire);
    return verdict.settle();
  };
  EXPECT_TRUE(step(false));
  EXPECT_FALSE(step(true));
  EXPECT_TRUE(step(false)) << "one bad step is one";
}

}  // namespace
}  // namespace weft::detail
