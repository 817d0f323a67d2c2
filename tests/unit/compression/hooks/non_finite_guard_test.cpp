#include "compression/hooks/non_finite_guard.hpp"

#include <gtest/gtest.h>

namespace weft::detail {
namespace {

TEST(NonFiniteGuard, CountsAStepUnlessATaskOfItFoundSomethingBad) {
  NonFiniteGuard guard;
  EXPECT_FALSE(guard.finish_step()) << "there was no step";
  Stream wire = Stream::queued();
  const auto step = [&](bool bad) {
    wire.run([] {});
    guard.submitted(wire);
    wire.run([&guard, bad] {
      if (bad) guard.found_non_finite();
    });
    guard.submitted(wire);
    return guard.finish_step();
  };
  EXPECT_TRUE(step(false));
  EXPECT_FALSE(step(true));
  EXPECT_TRUE(step(false)) << "one bad step is one";
}

}  // namespace
}  // namespace weft::detail
