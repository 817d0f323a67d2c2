#include "collectives/bootstrap/agreement.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "../store/meeting_places.hpp"
#include "support/expect_error.hpp"

namespace weft {
namespace {

using namespace std::chrono_literals;
using detail::Facts;
using test::expect_error;

Facts facts(const std::string& version, const std::string& order) {
  Facts result;
  result.add("version", version);
  result.add("WEFT_ORDER", order);
  return result;
}

/// What each of three ranks has; all expect the same of it.
void on_three(const std::function<Facts(int rank)>& of,
              const std::function<void(std::function<void()>)>& expect) {
  const auto store = make_memory_store();
  test::on_ranks(3, [&](int rank) {
    const auto rendezvous = make_store_rendezvous(store, "test", rank, 3);
    const Facts mine = of(rank);
    const auto digests = rendezvous->all_gather(mine.digest(), "digests", Deadline::in(20s));
    expect([&] { mine.expect_equal(digests, *rendezvous, Deadline::in(20s)); });
  });
}

TEST(Facts, ThatAreEqualPass) {
  on_three([](int) { return facts("1", "rank"); }, [](const auto& compare) { EXPECT_NO_THROW(compare()); });
}

TEST(Facts, NameTheFirstThatDiffersOnEveryRank) {
  on_three([](int rank) { return facts("1", rank == 2 ? "any" : "rank"); },
           [](const auto& compare) {
             expect_error(ErrorKind::mismatch, {"rank 2 has WEFT_ORDER=any, rank 0 has WEFT_ORDER=rank"},
                          compare);
           });
  on_three([](int rank) { return facts(rank == 0 ? "1" : "2", rank == 1 ? "any" : "rank"); },
           [](const auto& compare) {
             expect_error(ErrorKind::mismatch, {"rank 1 has version=2, rank 0 has version=1"}, compare);
           });
}

// A build that has another list of facts.
TEST(Facts, ThatOneSideLacksAreNothing) {
  on_three(
      [](int rank) {
        Facts mine = facts("1", "rank");
        if (rank != 1) mine.add("blocks", "7");
        return mine;
      },
      [](const auto& compare) {
        try {
          compare();
          ADD_FAILURE() << "it passed";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
        }
      });
}

TEST(Facts, HaveADigestOfSixteenDigits) {
  EXPECT_EQ(facts("1", "rank").digest().size(), 16U);
  EXPECT_NE(facts("1", "rank").digest(), facts("1", "any").digest());
  EXPECT_NE(facts("1", "rank").digest(), facts("1r", "ank").digest());
}

}  // namespace
}  // namespace weft
