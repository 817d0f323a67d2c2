#include "collectives/shm/cores.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

TEST(Cores, ReadWhatTheyWrote) {
  for (const char* const note : {"0", "1", "3", "f0", "8000000000000001", "123456789abcdef0"})
    EXPECT_EQ(Cores::from(note).note(), note);
  const Cores own = Cores::of_this_thread();
  EXPECT_GE(own.count(), 1);
  EXPECT_EQ(Cores::from(own.note()).count(), own.count());
}

TEST(Cores, OfSeveralRanksAreCountedOnce) {
  Cores all = Cores::from("3");
  all.add(Cores::from("6"));
  EXPECT_EQ(all.count(), 3);
  EXPECT_EQ(all.note(), "7");
}

TEST(Cores, RefuseWhatIsNone) {
  test::expect_error(ErrorKind::internal, {"'3g'"}, [] { (void)Cores::from("3g"); });
  test::expect_error(ErrorKind::internal, {"processors"}, [] { (void)Cores::from(std::string(300, '1')); });
}

}  // namespace
}  // namespace weft::detail
