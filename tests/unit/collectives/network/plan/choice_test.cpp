// Tables of algorithms, and what is chosen by them; and the page that has to tell of every algorithm.

#include "collectives/network/plan/choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

using test::expect_error;

Operation all_reduce_of(std::int64_t count, DataType dtype = DataType::f32, ReduceOp op = ReduceOp::sum) {
  return {.kind = Collective::all_reduce, .count = count, .dtype = dtype, .op = op};
}

TEST(AlgorithmTable, IsTheSameAfterItsOwnText) {
  const auto& table = AlgorithmTable::built_in();
  EXPECT_EQ(AlgorithmTable::parse(table.text(), "itself").rows(), table.rows());
  EXPECT_EQ(AlgorithmTable::parse("# nothing\n\n", "x").rows().size(), 0U);
}

TEST(AlgorithmTable, TheRowWithTheMostBytesCountsAndOneForThisNumberOfRanksFirst) {
  const auto table = AlgorithmTable::parse(R"(
      rank all_reduce 0 0     small
      rank all_reduce 0 1000  pairwise   # for any number of ranks
      any  all_reduce 0 5000  ring
      rank all_reduce 4 2000  small)",
                                           "x");
  const auto chosen = [&](ReductionOrder order, int ranks, std::uint64_t bytes) {
    const auto row = table.find(order, Collective::all_reduce, ranks, bytes);
    return row ? std::optional(row->algorithm) : std::nullopt;
  };
  EXPECT_EQ(chosen(ReductionOrder::rank, 3, 999), Algorithm::small);
  EXPECT_EQ(chosen(ReductionOrder::rank, 3, 1000), Algorithm::pairwise);
  EXPECT_EQ(chosen(ReductionOrder::rank, 3, 9000), Algorithm::pairwise);
  EXPECT_EQ(chosen(ReductionOrder::any, 3, 4999), Algorithm::pairwise);
  EXPECT_EQ(chosen(ReductionOrder::any, 3, 5000), Algorithm::ring);
  EXPECT_EQ(chosen(ReductionOrder::rank, 4, 1999), Algorithm::pairwise);
  EXPECT_EQ(chosen(ReductionOrder::rank, 4, 2000), Algorithm::small);
  EXPECT_EQ(table.find(ReductionOrder::any, Collective::broadcast, 4, 1), std::nullopt);
}

TEST(AlgorithmTable, RefusesWhatMakesNoSense) {
  const auto refused = [](const std::string& row, const std::string& reason) {
    expect_error(ErrorKind::usage, {"tuned.txt, line 2: ", reason},
                 [&] { AlgorithmTable::parse("# one\n" + row, "tuned.txt"); });
  };
  refused("rank all_reduce 0 0", "'rank all_reduce 0 0' is not a row");
  refused("rank all_reduce 0 0 small more", "is not a row");
  refused("fixed all_reduce 0 0 small", "'fixed' is no order; allowed are rank, any");
  refused("rank allreduce 0 0 small", "'allreduce' is no collective with a choice; allowed are all_reduce");
  refused("rank barrier 0 0 dissemination", "'barrier' is no collective with a choice");
  refused("rank all_reduce -1 0 small", "'-1' is not a number of ranks");
  refused("rank all_reduce 0 1e6 small", "'1e6' is not a number of bytes");
  refused("rank all_reduce 0 99999999999999999999 small", "is not a number of bytes");
  refused("rank all_reduce 0 0 star", "'star' is no algorithm; allowed are small, doubling, pairwise");
  refused("any broadcast 0 0 halving", "there is no halving for broadcast");
  refused("rank all_reduce 0 0 ring", "ring does not sum in the order of ranks");
  expect_error(ErrorKind::usage, {"table of algorithms '/nowhere/table': cannot read it: No such file"},
               [] { AlgorithmTable::read("/nowhere/table"); });
}

TEST(Choice, EveryOperationHasOneAndItCarriesItOut) {
  for (const ReductionOrder order : {ReductionOrder::rank, ReductionOrder::any}) {
    for (int kind = 0; kind <= static_cast<int>(Collective::barrier); ++kind) {
      for (const std::int64_t count : {0, 1, 2000, 100'000, 100'000'000}) {
        for (const int ranks : {1, 2, 3, 64}) {
          const Operation operation{
              .kind = static_cast<Collective>(kind), .count = count, .dtype = DataType::f32};
          const Algorithm algorithm = choose({.order = order}, operation, ranks);
          EXPECT_TRUE(carries_out(algorithm, operation.kind)) << operation.text();
          if (order == ReductionOrder::rank && operation.reduces()) {
            EXPECT_TRUE(keeps_rank_order(algorithm)) << operation.text();
          }
        }
      }
    }
  }
}

TEST(Choice, MeansThatDoNotFitTheirTypeKeepTheOrderOfRanks) {
  const Choices ring{ReductionOrder::any, AlgorithmTable::parse("any all_reduce 0 0 ring", "x")};
  EXPECT_EQ(choose(ring, all_reduce_of(100'000), 4), Algorithm::ring);
  EXPECT_EQ(choose(ring, all_reduce_of(100'000, DataType::f64, ReduceOp::avg), 4), Algorithm::ring);
  EXPECT_EQ(choose(ring, all_reduce_of(100'000, DataType::f16), 4), Algorithm::ring);
  EXPECT_EQ(choose(ring, all_reduce_of(100'000, DataType::f16, ReduceOp::avg), 4), Algorithm::pairwise);
  EXPECT_EQ(choose(ring, all_reduce_of(100'000, DataType::i32, ReduceOp::avg), 4), Algorithm::pairwise);
}

TEST(Choice, SaysWhy) {
  const Choices given{ReductionOrder::any, AlgorithmTable::parse("any all_reduce 0 65536 ring", "x")};
  EXPECT_EQ(
      explain_choice(given, all_reduce_of(20'000), 4),
      "ring (80000 bytes over 4 ranks, order any: row 'any all_reduce 0 65536 ring' of the given table)");
  EXPECT_EQ(explain_choice({}, all_reduce_of(20'000), 4),
            "pairwise (80000 bytes over 4 ranks, order rank: row 'rank all_reduce 0 8193 pairwise' of the "
            "built-in table)");
}

TEST(Choices, AreTheFirstRanksAndTheSameEverywhere) {
  const auto note = [](int rank, Environment::Values values) {
    return Choices::note(rank, Environment(std::move(values)), {}, {});
  };
  const auto ring = AlgorithmTable::parse("any all_reduce 0 0 ring", "x");
  const std::string given = Choices::note(0, Environment(), ReductionOrder::any, ring);
  const auto agreed = Choices::agreed({given, note(1, {{"WEFT_ORDER", "any"}}), given});
  EXPECT_EQ(agreed.order, ReductionOrder::any);
  EXPECT_EQ(agreed.table.rows(), ring.rows());
  EXPECT_EQ(Choices::agreed({note(0, {}), note(1, {})}).order, ReductionOrder::rank);

  expect_error(ErrorKind::mismatch, {"rank 0 sums in the order 'any', rank 1 in 'rank'"}, [&] {
    Choices::agreed({given, note(1, {})});
  });
  expect_error(ErrorKind::mismatch, {"ranks 0 and 1 were given different tables"}, [&] {
    Choices::agreed({note(0, {{"WEFT_ORDER", "any"}}), given});
  });
  expect_error(ErrorKind::usage, {"WEFT_ORDER=size is neither rank nor any"}, [&] {
    note(1, {{"WEFT_ORDER", "size"}});
  });
  expect_error(ErrorKind::usage, {"table of algorithms '/nowhere': cannot read it"}, [&] {
    note(0, {{"WEFT_ALGORITHMS", "/nowhere"}});
  });
  // Only the first rank needs the file.
  EXPECT_EQ(Choices::agreed({note(0, {}), note(1, {{"WEFT_ALGORITHMS", "/nowhere"}})}).table.rows().size(),
            0U);
}

// docs/algorithms.md: a list item that begins with its name for every algorithm, and none for what there is
// not.
TEST(Documentation, HasAParagraphForEveryAlgorithm) {
  std::ifstream page(WEFT_SOURCE_DIR "/docs/algorithms.md");
  ASSERT_TRUE(page);
  std::string section;
  std::vector<std::string> told;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) section = line.substr(3);
    const auto end = line.find("**:");
    if (section == "Between nodes" && line.starts_with("- **") && end != std::string::npos)
      told.push_back(line.substr(4, end - 4));
  }
  std::vector<std::string> names;
  for (const std::string_view one : algorithm_names) names.emplace_back(one);
  std::ranges::sort(told);
  std::ranges::sort(names);
  EXPECT_EQ(told, names);
}

}  // namespace
}  // namespace weft::detail
