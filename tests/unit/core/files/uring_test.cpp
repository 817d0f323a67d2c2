#include "core/files/uring.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>

#include "support/expect_error.hpp"
#include "support/forbidden_call.hpp"

namespace weft::detail {
namespace {

#if WEFT_HAS_URING

TEST(Uring, SaysWhereItIsForbidden) {
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EXIT(
        {
          test::forbid(SYS_io_uring_setup, error);
          test::expect_error(ErrorKind::system, {"io_uring is not allowed here", "seccomp", "in memory"},
                             [] { Uring ring(4); });
          std::exit(testing::Test::HasFailure() ? 1 : 0);
        },
        testing::ExitedWithCode(0), "");
  }
}

#else

TEST(Uring, SaysThatItIsNotBuilt) {
  test::expect_error(ErrorKind::usage, {"built without io_uring", "liburing-dev", "WEFT_URING"},
                     [] { Uring ring(4); });
}

#endif

}  // namespace
}  // namespace weft::detail
