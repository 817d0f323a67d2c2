#include "weft/compression/hook_named.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft {
namespace {

TEST(HookNamed, KnowsEveryCodeAndItsParameters) {
  const auto name = [](const std::string& asked) { return hook_named(asked, 3)->name(); };
  EXPECT_NE(name("powersgd:4").find("rank 4, start 3"), std::string::npos) << name("powersgd:4");
  EXPECT_NE(name("powersgd:4").find("form 0"), std::string::npos);
  EXPECT_NE(name("powersgd:12:alternating").find("rank 12"), std::string::npos);
  EXPECT_NE(name("powersgd:12:alternating").find("form 1"), std::string::npos);
  EXPECT_EQ(name("fp16"), "fp16") << "no step is different, and nothing is kept";
  EXPECT_NE(name("int8:stochastic").find("errors in 16 bits from step 3"), std::string::npos);
  EXPECT_NE(name("auto").find("start 3"), std::string::npos) << name("auto");
  EXPECT_NE(name("top-k:0.01").find("top-k:0.01"), std::string::npos);
}

TEST(HookNamed, SaysWhatWasProbablyMeant) {
  using test::expect_error;
  expect_error(ErrorKind::usage, {"'powersdg:4'", "did you mean powersgd:4?", "fp8-e5m2"},
               [] { hook_named("powersdg:4"); });
  expect_error(ErrorKind::usage, {"'bf61'", "did you mean bf16?"}, [] { hook_named("bf61"); });
  expect_error(ErrorKind::usage, {"'auto:4'", "no parameter"}, [] { hook_named("auto:4"); });
  expect_error(ErrorKind::usage, {"'aut'", "did you mean auto?"}, [] { hook_named("aut"); });
  expect_error(ErrorKind::usage, {"'powersgd'", "powersgd:4"}, [] { hook_named("powersgd"); });
  expect_error(ErrorKind::usage, {"'powersgd:4x'", "give a rank"}, [] { hook_named("powersgd:4x"); });
  expect_error(ErrorKind::usage, {"rank 0"}, [] { hook_named("powersgd:0"); });
  expect_error(ErrorKind::usage, {"top-k", "2"}, [] { hook_named("top-k:2"); });
}

}  // namespace
}  // namespace weft
