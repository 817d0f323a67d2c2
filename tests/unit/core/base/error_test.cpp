#include "weft/core/error.hpp"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Error, SaysRankOperationNumberProblemAndAdviceInOneLine) {
  const Error error(ErrorKind::mismatch, "counts differ: 3 and 4", "pass the same count",
                    {1, "all_reduce", 17});
  EXPECT_STREQ(error.what(), "weft: rank 1: all_reduce #17: counts differ: 3 and 4; pass the same count");
}

TEST(Error, KeepsTheContextItHadWhenMoreIsAdded) {
  const Error inner(ErrorKind::timeout, "nobody came", {}, {2, "", 0});
  const Error outer = inner.in({5, "barrier", 3});
  EXPECT_EQ(outer.context().rank, 2);
  EXPECT_EQ(outer.context().operation, "barrier");
  EXPECT_STREQ(outer.what(), "weft: rank 2: barrier #3: nobody came");
}

TEST(Error, NamesThePlaceOnlyForDefectsOfWeft) {
  EXPECT_NE(std::string(Error(ErrorKind::internal, "x").what()).find("error_test.cpp:"), std::string::npos);
  EXPECT_EQ(std::string(Error(ErrorKind::usage, "x").what()).find("error_test.cpp"), std::string::npos);
  EXPECT_NE(std::string(Error(ErrorKind::usage, "x").where().file_name()).find("error_test.cpp"),
            std::string::npos);
}

TEST(Error, ExitCodesFollowTheProgramsContract) {
  EXPECT_EQ(exit_code(ErrorKind::usage), 42);
  EXPECT_EQ(exit_code(ErrorKind::mismatch), 42);
  EXPECT_EQ(exit_code(ErrorKind::timeout), 75);
  EXPECT_EQ(exit_code(ErrorKind::peer_lost), 75);
  EXPECT_EQ(exit_code(ErrorKind::system), 70);
  EXPECT_EQ(exit_code(ErrorKind::internal), 70);
}

TEST(Error, SystemErrorsCarryTheReasonOfTheSystem) {
  errno = ENOENT;
  EXPECT_STREQ(system_error("cannot open /x", "make it").what(),
               "weft: cannot open /x: No such file or directory; make it");
}

}  // namespace
}  // namespace weft
