// Calls of collectives compared over ranks: mixed and one after the other, cut, twice, in groups, of several communicators.

#include "weft-report/nccl/calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "support/draw.hpp"
#include "weft-report/nccl/nccl.hpp"

namespace weft::report::nccl {
namespace {

struct Issued {
  std::uint64_t op_count = 0;
  std::string name = "AllReduce";
  std::uint64_t count = 8;
  int datatype = 7;
  int op = 0;
  int root = 0;
  int buffer = 0;
  auto shape() const { return std::tuple(name, count, datatype, op, root); }
};

std::string line_of(int rank, const Issued& one, int ranks, const std::string& comm) {
  return text("node", rank / 8, ":", 700 + rank, ":1 [", rank % 8, "] NCCL INFO ", one.name, ": opCount ",
              hex(one.op_count), " sendbuff 0x7f", one.buffer, " recvbuff 0x7f", one.buffer, " count ",
              one.count, " datatype ", one.datatype, " op ", one.op, " root ", one.root, " comm ", comm,
              " [nranks=", ranks, "] stream 0x5580\n");
}
std::string comm_of(int rank) {
  return text("0xabc", rank);
}
std::string start_of(int rank, int ranks, const std::string& id = "0x77") {
  return text("node", rank / 8, ":", 700 + rank, ":1 [0] NCCL INFO ncclCommInitRank comm ", comm_of(rank),
              " rank ", rank, " nranks ", ranks, " cudaDev 0 nvmlDev 0 busId 1b000 commId ", id,
              " - Init START\n");
}

using Ranks = std::vector<std::vector<Issued>>;  // the calls of each

/// @param mixed: an operation of every rank in turn; else one rank after the other
std::string log_of_ranks(const Ranks& job, bool mixed, bool with_start = true) {
  const int ranks = static_cast<int>(job.size());
  std::string log;
  std::size_t longest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (with_start) log += start_of(rank, ranks);
    longest = std::max(longest, job[static_cast<std::size_t>(rank)].size());
  }
  const auto add = [&](std::size_t rank, std::size_t i) {
    if (i < job[rank].size())
      log += line_of(static_cast<int>(rank), job[rank][i], ranks, comm_of(static_cast<int>(rank)));
  };
  if (mixed) {
    for (std::size_t i = 0; i < longest; ++i) {
      for (std::size_t rank = 0; rank < job.size(); ++rank) add(rank, i);
    }
  } else {
    for (std::size_t rank = 0; rank < job.size(); ++rank) {
      for (std::size_t i = 0; i < job[rank].size(); ++i) add(rank, i);
    }
  }
  return log;
}

JobLog read_log(const std::string& content) {
  JobLog log;
  log.add(content, "log");
  return log;
}
std::vector<Issued> calls_until(std::uint64_t count) {
  std::vector<Issued> all;
  for (std::uint64_t i = 0; i < count; ++i)
    all.push_back({.op_count = i, .count = 8 + i, .buffer = static_cast<int>(i)});
  return all;
}
const Finding* of_cause(const std::vector<Finding>& findings, std::string_view cause) {
  const auto found = std::ranges::find(findings, cause, &Finding::cause);
  return found == findings.end() ? nullptr : &*found;
}

TEST(NcclCalls, OfALineAreThoseThatWerePrinted) {
  weft::test::Draw draw(7);
  for (int i = 0; i < 2000; ++i) {
    const Issued one{
        .op_count = draw.below(2) == 0 ? static_cast<std::uint64_t>(draw.below(1 << 20)) : ~std::uint64_t{0},
        .name = draw.one_of<std::string>(
            {"AllReduce", "Broadcast", "ReduceScatter", "AllGather", "Reduce", "AlltoAll", "Send"}),
        .count = static_cast<std::uint64_t>(draw.below(1 << 30)),
        .datatype = draw.below(12),
        .op = draw.below(5),
        .root = draw.below(64),
        .buffer = draw.below(9)};
    const int ranks = 1 + draw.below(4096);
    const std::string whole = line_of(3, one, ranks, "0x5581");
    const std::string_view message = parse_log_line(whole).message;
    ASSERT_TRUE(begins_call(message));
    CallLine line;
    ASSERT_TRUE(parse_call(message, line)) << whole;
    EXPECT_EQ(line.op_count, one.op_count);
    EXPECT_EQ(std::string(line.call.name.data()), one.name);
    EXPECT_EQ(line.call.count, one.count);
    EXPECT_EQ(line.call.datatype, one.datatype);
    EXPECT_EQ(line.call.op, one.op);
    EXPECT_EQ(line.call.root, one.root);
    EXPECT_EQ(line.comm, "0x5581");
    EXPECT_EQ(line.ranks, ranks);
    EXPECT_EQ(line.message, one.name == "Send");
    const std::size_t needed = message.find("stream ") + 8;
    for (std::size_t size = 0; size < needed - 1; ++size)
      EXPECT_FALSE(parse_call(message.substr(0, size), line)) << size;
  }
}

TEST(NcclCalls, AreComparedHoweverLogsAreMixed) {
  for (const bool mixed : {true, false}) {
    Ranks job(4, calls_until(50));
    EXPECT_TRUE(read_log(log_of_ranks(job, mixed)).job().call_differences.empty());
    job[2][30].count = 99;
    job[2][40].count = 99;
    const JobLog log = read_log(log_of_ranks(job, mixed));
    ASSERT_EQ(log.job().call_differences.size(), 1U);
    EXPECT_EQ(log.job().call_differences[0].op_count, 30U);
    const std::vector<Finding> findings = examine(log.job());
    const Finding* one = of_cause(findings, "mismatched-collective");
    ASSERT_NE(one, nullptr);
    EXPECT_NE(one->verdict.find("rank 2, node0:702 calls AllReduce of 99 float32 (sum, root 0) as opCount "
                                "1e of a communicator of 4 ranks, "
                                "where 3 of them call AllReduce of 38 float32"),
              std::string::npos)
        << one->verdict;
    ASSERT_GE(one->evidence.size(), 1U);
    EXPECT_NE(one->evidence[0].text.find("count 99 "), std::string::npos);
  }
}

TEST(NcclCalls, ThatDifferInAnyPartAreFound) {
  for (int part = 0; part < 5; ++part) {
    Ranks job(2, calls_until(3));
    Issued& one = job[1][2];
    if (part == 0) one.name = "AllGather";
    if (part == 1) ++one.count;
    if (part == 2) one.datatype = 9;
    if (part == 3) one.op = 2;
    if (part == 4) one.root = 1;
    EXPECT_EQ(read_log(log_of_ranks(job, true)).job().call_differences.size(), 1U) << part;
    one = calls_until(3)[2];
    one.buffer = 77;
    EXPECT_TRUE(read_log(log_of_ranks(job, true)).job().call_differences.empty()) << part;
  }
}

TEST(NcclCalls, OfAGroupAreComparedInTheirOrder) {
  const std::vector<Issued> group{{.op_count = 5, .count = 1, .buffer = 1},
                                  {.op_count = 5, .count = 2, .buffer = 2},
                                  {.op_count = 5, .count = 3, .buffer = 3}};
  Ranks job{group, group};
  EXPECT_TRUE(read_log(log_of_ranks(job, false)).job().call_differences.empty());
  job[1][2].count = 4;
  EXPECT_EQ(read_log(log_of_ranks(job, false)).job().call_differences.size(), 1U);
}

TEST(NcclCalls, WhoseLinesStandTwiceOrAreCutAreNoDifference) {
  weft::test::Draw draw(3);
  Ranks job(3, calls_until(40));
  std::string whole = log_of_ranks(job, true);
  for (int trial = 0; trial < 50; ++trial) {
    std::string log;
    for (std::size_t from = 0; from < whole.size();) {
      const std::size_t end = whole.find('\n', from) + 1;
      const std::string line = whole.substr(from, end - from);
      if (draw.below(3) == 0)
        log += line.substr(0, static_cast<std::size_t>(draw.below(static_cast<int>(line.size())))) + "\n";
      log += line;
      from = end;
    }
    EXPECT_TRUE(read_log(log).job().call_differences.empty());
  }
}

TEST(NcclCalls, OfOtherCommunicatorsAreNotCompared) {
  const std::string log = start_of(0, 2, "0x11") + start_of(1, 2, "0x22") +
                          line_of(0, {.count = 1}, 2, comm_of(0)) + line_of(1, {.count = 2}, 2, comm_of(1));
  EXPECT_TRUE(read_log(log).job().call_differences.empty());
  // An address that is used again by another communicator.
  const std::string ended =
      "node0:700:1 [0] NCCL INFO comm 0xabc0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE\n";
  const std::string again = start_of(0, 2, "0x11") + start_of(1, 2, "0x11") +
                            line_of(0, {.count = 1}, 2, comm_of(0)) + ended + start_of(0, 2, "0x33") +
                            line_of(0, {.count = 9}, 2, comm_of(0)) + line_of(1, {.count = 1}, 2, comm_of(1));
  EXPECT_TRUE(read_log(again).job().call_differences.empty());
}

TEST(NcclCalls, OfPartsOfACommunicatorAreJoinedByTheirColour) {
  const auto split = [](int rank, int color) {
    return text("node0:", 700 + rank, ":1 [0] NCCL INFO ncclCommSplit comm 0xdd", rank,
                " rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 parent ", comm_of(rank),
                " splitCount 1 color ", color, " key 0- Init START\n");
  };
  const std::string world = start_of(0, 4) + start_of(1, 4);
  const std::string calls = line_of(0, {.count = 1}, 2, "0xdd0") + line_of(1, {.count = 2}, 2, "0xdd1");
  EXPECT_EQ(read_log(world + split(0, 3) + split(1, 3) + calls).job().call_differences.size(), 1U);
  EXPECT_TRUE(read_log(world + split(0, 3) + split(1, 4) + calls).job().call_differences.empty());
}

TEST(NcclCalls, WithoutCommIdAreJoinedWhereOneCommunicatorHasThatSize) {
  Ranks job(2, calls_until(3));
  job[1][1].count = 99;
  const JobLog two = read_log(log_of_ranks(job, false, false));
  const std::vector<Finding> findings = examine(two.job());
  ASSERT_NE(of_cause(findings, "mismatched-collective"), nullptr);
  // Four processes in communicators of two: nothing says who belongs together.
  std::string four = log_of_ranks(job, false, false);
  for (int rank = 2; rank < 4; ++rank) four += line_of(rank, {.count = 5}, 2, comm_of(rank));
  EXPECT_EQ(of_cause(examine(read_log(four).job()), "mismatched-collective"), nullptr);
}

TEST(NcclCalls, ThatARankLacksAreNamedWhereTheJobHangs) {
  Ranks job(3, calls_until(20));
  job[1].resize(12);
  const std::string watchdog = "[rank0]: Watchdog caught collective operation timeout\n";
  const JobLog log = read_log(log_of_ranks(job, false) + watchdog);
  const std::vector<Finding> findings = examine(log.job());
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].cause, "rank-behind");
  EXPECT_NE(findings[0].verdict.find("rank 1, node0:701 is behind: the last call in a communicator of 3 "
                                     "ranks is AllReduce with opCount b; "
                                     "others wait in AllReduce with opCount 13"),
            std::string::npos)
      << findings[0].verdict;
  EXPECT_EQ(of_cause(examine(read_log(log_of_ranks(job, false)).job()), "rank-behind"), nullptr);
  job[1] = job[0];
  EXPECT_EQ(of_cause(examine(read_log(log_of_ranks(job, false) + watchdog).job()), "rank-behind"), nullptr);
}

/// The window: memory does not grow, what has left it is not compared, and what is in it is.
TEST(NcclCalls, FarApartAreNotCompared) {
  const std::uint64_t many = CallComparison::most_calls + 1000;
  Ranks job(2, calls_until(many));
  job[1][10].count = 99;  // the first rank's has left the window when the second's comes
  EXPECT_TRUE(read_log(log_of_ranks(job, false)).job().call_differences.empty());
  EXPECT_EQ(read_log(log_of_ranks(job, true)).job().call_differences.size(), 1U);
  job[1][10] = job[0][10];
  job[1][many - 5].count = 99;
  EXPECT_EQ(read_log(log_of_ranks(job, false)).job().call_differences.size(), 1U);
}

/// The twin: all calls in a map.
TEST(NcclCalls, FirstDifferenceIsThatOfASlowComparison) {
  weft::test::Draw draw(11);
  for (int trial = 0; trial < 200; ++trial) {
    Ranks job(static_cast<std::size_t>(2 + draw.below(4)),
              calls_until(static_cast<std::uint64_t>(1 + draw.below(60))));
    for (int changes = draw.below(4); changes > 0; --changes) {
      auto& rank = job[static_cast<std::size_t>(draw.below(static_cast<int>(job.size())))];
      rank[static_cast<std::size_t>(draw.below(static_cast<int>(rank.size())))].count =
          static_cast<std::uint64_t>(draw.below(3));
    }
    std::optional<std::uint64_t> first;
    for (std::size_t i = 0; i < job[0].size() && !first; ++i) {
      for (const auto& rank : job) {
        if (rank[i].shape() != job[0][i].shape()) first = rank[i].op_count;
      }
    }
    const JobLog log = read_log(log_of_ranks(job, draw.below(2) == 0));
    const auto& found = log.job().call_differences;
    ASSERT_EQ(found.size(), first ? 1U : 0U);
    if (first) {
      EXPECT_EQ(found[0].op_count, *first);
      int ranks = 0;
      for (const auto& side : found[0].sides) ranks += side.ranks;
      EXPECT_EQ(ranks, static_cast<int>(job.size()));
    }
  }
}

}  // namespace
}  // namespace weft::report::nccl
