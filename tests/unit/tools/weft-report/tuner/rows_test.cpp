// The reading of a tuner's table: what stands, what is refused and in which words, whatever the bytes.
#include "weft-report/tuner/rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft::tuner {
namespace {

TEST(TunerRows, EveryColumnIsRead) {
  const Table table = Table::parse("allreduce,1024,2048,nvls_tree,simple,8,4,32,2,1\n");
  ASSERT_EQ(table.rows.size(), 1u);
  const Row& row = table.rows.front();
  EXPECT_EQ(row.line, 1);
  EXPECT_EQ(row.collective, 4);
  EXPECT_EQ(row.min_bytes, 1024u);
  EXPECT_EQ(row.max_bytes, 2048u);
  EXPECT_EQ(row.algorithm, 5);
  EXPECT_EQ(row.protocol, 2);
  EXPECT_EQ(row.channels, 8);
  EXPECT_EQ(row.nodes, 4);
  EXPECT_EQ(row.ranks, 32);
  EXPECT_EQ(row.pipe_ops, 2);
  EXPECT_EQ(row.registered, 1);
  EXPECT_EQ(row.choice(), "nvls_tree/simple, 8 channels");
}

TEST(TunerRows, TheLastTwoColumnsMayBeMissing) {
  const Table table = Table::parse("broadcast,0,10,ring,ll,-1,-1,-1\nbroadcast,0,10,ring,ll,-1,-1,-1,3\n");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].pipe_ops, any);
  EXPECT_EQ(table.rows[0].registered, any);
  EXPECT_EQ(table.rows[1].pipe_ops, 3);
  EXPECT_EQ(table.rows[1].registered, any);
}

TEST(TunerRows, WhatASpreadsheetWritesIsRead) {
  const Table table = Table::parse(
      "\xef\xbb\xbf"
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\r\n"
      "\r\n# a comment\r\n \"allgather\" ,\t0 , 64,ring,simple,2,1,8,,\r\n");
  EXPECT_TRUE(table.bad.empty());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].line, 4);
  EXPECT_EQ(table.rows[0].ranks, 8);
}

TEST(TunerRows, ALimitOfFourGigabytesIsNone) {
  const Table table = Table::parse(
      "allreduce,0,4294967295,ring,simple,-1,-1,-1\nallreduce,0,-1,ring,simple,-1,-1,-1\n"
      "allreduce,0,4294967296,ring,simple,-1,-1,-1\n");
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_TRUE(table.rows[0].matches(4, std::uint64_t{1} << 40, 1, 0));
  EXPECT_TRUE(table.rows[1].matches(4, std::uint64_t{1} << 40, 1, 0));
  EXPECT_FALSE(table.rows[2].matches(4, std::uint64_t{1} << 40, 1, 0));
}

TEST(TunerRows, BothEndsOfARangeBelongToIt) {
  const Row row = Table::parse("reduce,100,200,ring,simple,-1,2,-1\n").rows.at(0);
  EXPECT_FALSE(row.matches(1, 99, 1, 0));
  EXPECT_TRUE(row.matches(1, 100, 1, 0));
  EXPECT_TRUE(row.matches(1, 200, 1, 0));
  EXPECT_FALSE(row.matches(1, 201, 1, 0));
  EXPECT_FALSE(row.matches(0, 150, 1, 0));
  EXPECT_TRUE(row.fits(16, 2));
  EXPECT_FALSE(row.fits(16, 4));
}

struct Refused {
  const char* row;
  const char* problem;
};

void PrintTo(const Refused& one, std::ostream* out) {
  *out << one.row;
}

class TunerRefusedRow : public testing::TestWithParam<Refused> {};

TEST_P(TunerRefusedRow, IsNamedByItsLineAndTheOthersStand) {
  const Table table = Table::parse(std::string("reduce,0,1,ring,ll,-1,-1,-1\n") + GetParam().row +
                                   "\nallreduce,0,1,ring,ll,-1,-1,-1");
  EXPECT_EQ(table.rows.size(), 2u);
  ASSERT_EQ(table.bad.size(), 1u);
  EXPECT_EQ(table.bad[0].line, 2);
  EXPECT_EQ(table.bad[0].problem, GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, TunerRefusedRow,
    testing::Values(
        Refused{
            "allreduc,0,1,ring,ll,-1,-1,-1",
            "collective is 'allreduc': allowed are broadcast, reduce, allgather, reducescatter, allreduce"},
        Refused{"allreduce,0,1,rings,ll,-1,-1,-1",
                "algorithm is 'rings': allowed are tree, ring, collnet_direct, collnet_chain, nvls, "
                "nvls_tree, pat"},
        Refused{"allreduce,0,1,ring,LL,-1,-1,-1", "protocol is 'LL': allowed are ll, ll128, simple"},
        Refused{"allreduce,0,1,ring,ll,65,-1,-1",
                "channels is '65': allowed is 1 to 64, or -1 for NCCL's own number"},
        Refused{"allreduce,0,1,ring,ll,-2,-1,-1",
                "channels is '-2': allowed is 1 to 64, or -1 for NCCL's own number"},
        Refused{"allreduce,1K,1M,ring,ll,-1,-1,-1", "min_bytes is '1K': allowed is a number of bytes"},
        Refused{"allreduce,0,99999999999999999999,ring,ll,-1,-1,-1",
                "max_bytes is '99999999999999999999': allowed is a number of bytes, or -1 for no limit"},
        Refused{"allreduce,9,8,ring,ll,-1,-1,-1", "min_bytes 9 is above max_bytes 8"},
        Refused{"allreduce,0,1,ring,ll,-1,0,-1", "nNodes is '0': allowed is a number from 1, or -1 for any"},
        Refused{
            "allreduce,0,1,ring,ll,-1,-1,",
            "it has 7 columns, not 8 to 10: "
            "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"},
        Refused{"allreduce,0,1,ring,ll,-1,-1,-1,-1,2", "regBuff is '2': allowed are 0, 1, or -1 for any"},
        Refused{"allreduce,,1,ring,ll,-1,-1,-1", "min_bytes is '': allowed is a number of bytes"},
        Refused{"\x1b[31mallreduce,0,1,ring,ll,-1,-1,-1",
                "collective is '?[31mallreduce': allowed are broadcast, reduce, allgather, reducescatter, "
                "allreduce"}));

// 10,000 tables whose bytes were changed at random: rows and complaints together are never more than the lines, and every number is in its range.
TEST(TunerRows, RandomBytesAreRowsInTheirRangesOrComplaints) {
  const std::string good =
      "# a\nallreduce,0,65536,tree,simple,2,1,-1,-1,1\nbroadcast,32769,4294967295,ring,simple,2,-1,-1,1,0\n";
  std::mt19937 random(7);
  for (int round = 0; round < 10000; ++round) {
    std::string content = good;
    for (unsigned i = 0; i <= random() % 8; ++i)
      content[random() % content.size()] = static_cast<char>(random());
    const Table table = Table::parse(content);
    const auto lines = static_cast<std::size_t>(std::ranges::count(content, '\n') + 1);
    ASSERT_LE(table.rows.size() + table.bad.size(), lines);
    for (const Row& row : table.rows) {
      ASSERT_LE(row.min_bytes, row.max_bytes);
      ASSERT_GE(row.channels, any);
      ASSERT_LE(row.channels, most_channels);
      ASSERT_LT(static_cast<std::size_t>(row.algorithm), algorithm_names.size());
      ASSERT_LT(static_cast<std::size_t>(row.protocol), protocol_names.size());
    }
    for (const BadRow& one : table.bad) {
      for (const char letter : one.problem) ASSERT_TRUE(letter >= 0x20 && letter < 0x7f);
    }
  }
}

}  // namespace
}  // namespace weft::tuner
