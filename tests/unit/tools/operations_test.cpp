// Every row of weft-bench's table against itself: what its bare copy moves is what its reference says, in place and not.

#include "operations.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "case.hpp"
#include "shared_moves.hpp"

namespace weft::bench {
namespace {

constexpr int ranks = 3;
constexpr std::int64_t count = 7;
constexpr int root = 1;

std::int64_t value(int rank, std::int64_t i) {
  return 100 * (rank + 1) + i;
}
std::int64_t expected(const Source& source) {
  if (source.rank != Source::all_ranks) return value(source.rank, source.element);
  std::int64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, source.element);
  return sum;
}

void expect_right(const Operation& operation, bool in_place) {
  SCOPED_TRACE(testing::Message() << operation.name << (in_place ? " in place" : ""));
  Case which{.op = operation.op,
             .dtype = DataType::i64,
             .root = root,
             .in_place = in_place,
             .count = count,
             .ranks = ranks};
  std::vector<std::vector<std::int64_t>> first(ranks, std::vector<std::int64_t>(ranks * count));
  std::vector<std::vector<std::int64_t>> second = first;
  std::vector<SharedMoves::Buffers> buffers;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    buffers.push_back({reinterpret_cast<std::byte*>(first[rank].data()),
                       reinterpret_cast<std::byte*>(second[rank].data())});
  const auto elements = [](std::byte* address) { return reinterpret_cast<std::int64_t*>(address); };
  for (which.rank = 0; which.rank < ranks; ++which.rank) {
    std::int64_t* const input = elements(SharedMoves(buffers, which.rank).input(which, which.rank));
    for (std::int64_t i = 0; which.reads(which.rank) && i < which.in_count(); ++i)
      input[i] = value(which.rank, i);
  }
  for (which.rank = 0; which.rank < ranks; ++which.rank) {
    SharedMoves moves(buffers, which.rank);
    operation.bound(moves, which);
  }
  for (which.rank = 0; which.rank < ranks; ++which.rank) {
    const std::int64_t* const output = elements(SharedMoves(buffers, which.rank).output(which, which.rank));
    for (std::int64_t i = 0; which.writes(which.rank) && i < which.out_count(); ++i)
      EXPECT_EQ(output[i], expected(operation.source(which, i)))
          << "element " << i << " of rank " << which.rank;
  }
}

TEST(BenchOperations, MoveWhatTheirReferenceSays) {
  for (const Operation& operation : operations()) {
    for (const bool in_place : {false, true}) {
      if (exists(operation.op, in_place)) expect_right(operation, in_place);
    }
  }
}

TEST(BenchOperations, AreFoundByNameAndHaveTheirCollectivesName) {
  for (const Operation& operation : operations()) {
    EXPECT_EQ(op_named(operation.name), operation.op);
    if (operation.kind) {
      EXPECT_EQ(weft::name(*operation.kind), operation.name);
    }
    EXPECT_NE(std::string(operation.osu_title), "");
    EXPECT_GT(operation.bus_factor(ranks), 0);
  }
}

}  // namespace
}  // namespace weft::bench
