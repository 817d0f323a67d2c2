#include "weft/core/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <type_traits>

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

std::string said(const std::string& what) {
  return message_of(std::runtime_error(what));
}

TEST(Message, HasNoPlaceInALibrarysSource) {
  EXPECT_EQ(said("epoll: Too many open files [system:24 at "
                 "/usr/include/boost/asio/detail/impl/epoll_reactor.ipp:45:5 in "
                 "function 'int boost::asio::detail::epoll_reactor::do_epoll_create()']"),
            "epoll: Too many open files");
  EXPECT_EQ(said("syntax error [boost.json:1 at /usr/include/x.hpp:3:1 in function 'T& get() [with T = int; "
                 "U = a[3]]']: in a"),
            "syntax error: in a");
  EXPECT_EQ(said("a [x:-1 at f.hpp:1] and b [y:2 at g.ipp:2]"), "a and b");
  EXPECT_EQ(said("[x:1 at f.hpp:1]"), "");
  EXPECT_EQ(said("cut off [system:24 at /usr/incl"), "cut off");
  EXPECT_EQ(
      said(
          "no tensor\nException raised from get at ../torch/x.cpp:12 (most recent call first):\nframe #0: a"),
      "no tensor");
}

TEST(Message, IsElseWhatTheExceptionSays) {
  for (const char* const same : {"", "[", "]", "[]", "[0]: a", "a [b] c",
                                 "filesystem error: status: Permission denied [/root/at home]",
                                 "filesystem error: status: no [/a:1/ at home]", "[a at b]", "[a b:1 at c]",
                                 "x[3] at [3:4]", "[system:24]"})
    EXPECT_EQ(said(same), same);
  EXPECT_EQ(message_of(Error(ErrorKind::usage, "a [x:1 at f.hpp:1]")), "weft: a [x:1 at f.hpp:1]");
  EXPECT_EQ(message_of(std::bad_alloc()), "there is not enough memory");
}

TEST(Error, ExitCodesFollowTheProgramsContract) {
  EXPECT_EQ(exit_code(ErrorKind::usage), 42);
  EXPECT_EQ(exit_code(ErrorKind::mismatch), 42);
  EXPECT_EQ(exit_code(ErrorKind::timeout), 75);
  EXPECT_EQ(exit_code(ErrorKind::peer_lost), 75);
  EXPECT_EQ(exit_code(ErrorKind::system), 70);
  EXPECT_EQ(exit_code(ErrorKind::internal), 70);
  EXPECT_EQ(exit_code(Error(ErrorKind::mismatch, "x")), 42);
  EXPECT_EQ(exit_code(Error(ErrorKind::timeout, "x")), 75);
  EXPECT_EQ(exit_code(std::runtime_error("x")), 70);
}

static_assert(std::is_nothrow_copy_constructible_v<Error>);

/// What unwinds, as a destructor sees it.
class Witness {
 public:
  explicit Witness(std::string& seen) : seen_(seen) {}
  ~Witness() {
    const auto error = Error::in_flight();
    seen_ = error ? error->what() : "none";
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

 private:
  std::string& seen_;
};

template <class Thrown>
std::string seen_of(const Thrown& thrown, void (*before)()) {
  std::string seen;
  try {
    const Witness witness(seen);
    before();
    throw thrown;
  } catch (const std::exception&) {
  }
  return seen;
}

TEST(Error, IsSeenByDestructorsThatItUnwinds) {
  const auto nothing = [] {};
  const auto another = [] {
    try {
      throw Error(ErrorKind::timeout, "caught before");
    } catch (const Error&) {
    }
  };
  const auto found = [](void (*before)()) {
    std::string seen;
    try {
      const Witness witness(seen);
      before();
      throw Error(ErrorKind::usage, "in flight").in({2, {}, 0});
    } catch (const Error&) {
    }
    return seen;
  };
  EXPECT_EQ(found(nothing), "weft: rank 2: in flight");
  EXPECT_EQ(found(another), "weft: rank 2: in flight");
  EXPECT_EQ(seen_of(std::runtime_error("another's"), nothing), "none");
  EXPECT_EQ(seen_of(std::runtime_error("another's"), another), "none") << "what was caught is over";
  std::string seen;
  { const Witness witness(seen); }
  EXPECT_EQ(seen, "none");
}

TEST(Error, SystemErrorsCarryTheReasonOfTheSystem) {
  errno = ENOENT;
  EXPECT_STREQ(system_error("cannot open /x", "make it").what(),
               "weft: cannot open /x: No such file or directory; make it");
}

TEST(Error, SystemErrorsHaveTheUsualAdviceWhereTheyHaveNoOther) {
  errno = ENOSPC;
  EXPECT_STREQ(
      system_error("cannot write /x").what(),
      "weft: cannot write /x: No space left on device; make room on that disk, or name a place on another");
  errno = ENOSPC;
  EXPECT_STREQ(system_error("cannot write /x", "remove /y").what(),
               "weft: cannot write /x: No space left on device; remove /y");
  for (const int error : {EDQUOT, EROFS, EFBIG, EMFILE, ENFILE}) {
    errno = error;
    EXPECT_FALSE(system_error("cannot write /x").advice().empty()) << error;
  }
  errno = ENOENT;
  EXPECT_EQ(system_error("cannot open /x").advice(), "");
}

}  // namespace
}  // namespace weft
