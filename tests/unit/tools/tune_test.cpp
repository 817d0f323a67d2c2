// From times to a table.

#include "tune.hpp"

#include <gtest/gtest.h>

#include <map>

namespace weft::bench {
namespace {

Result timed(Op op, std::int64_t bytes, const std::map<Algorithm, double>& seconds) {
  Result result{.which = {.op = op, .count = bytes / 4, .ranks = 4}, .time = {}, .against = {}};
  if (has_parts(op)) result.which.count /= 4;
  for (const auto& [algorithm, time] : seconds)
    result.against.push_back({std::string(name(algorithm)), {time, time}, 1});
  return result;
}

using enum Algorithm;

TEST(Tune, TakesTheFastestOfEachSizeThatTheOrderAllows) {
  const auto table = tuned({timed(Op::all_reduce, 1024, {{small, 1}, {pairwise, 2}, {ring, 3}, {tree, 0.9}}),
                            timed(Op::all_reduce, 4096, {{small, 4}, {pairwise, 3}, {ring, 4}, {tree, 3.5}}),
                            timed(Op::all_reduce, 16384, {{small, 9}, {pairwise, 8}, {ring, 4}, {tree, 9}})});
  EXPECT_EQ(table.text(),
            "# order collective ranks from_bytes algorithm\n"
            "rank all_reduce 4 0 small\n"
            "rank all_reduce 4 4096 pairwise\n"
            "any all_reduce 4 0 tree\n"
            "any all_reduce 4 4096 pairwise\n"
            "any all_reduce 4 16384 ring\n");
}

TEST(Tune, ALeadThatMayBeChanceChangesNothing) {
  const auto table = tuned({timed(Op::broadcast, 1024, {{tree, 1}, {ring, 2}}),
                            timed(Op::broadcast, 4096, {{tree, 2}, {ring, 1.95}}),
                            timed(Op::broadcast, 16384, {{tree, 4}, {ring, 3}})});
  EXPECT_EQ(table.text(),
            "# order collective ranks from_bytes algorithm\n"
            "rank broadcast 4 0 tree\n"
            "rank broadcast 4 16384 ring\n");
}

TEST(Tune, SizesMayComeInAnyOrderAndMessagesHaveNoChoice) {
  const auto table =
      tuned({timed(Op::all_gather, 16384, {{ring, 1}, {pairwise, 2}}),
             timed(Op::all_gather, 1024, {{ring, 2}, {pairwise, 1}}), timed(Op::send_receive, 1024, {})});
  EXPECT_EQ(table.text(),
            "# order collective ranks from_bytes algorithm\n"
            "rank all_gather 4 0 pairwise\n"
            "rank all_gather 4 16384 ring\n");
}

}  // namespace
}  // namespace weft::bench
