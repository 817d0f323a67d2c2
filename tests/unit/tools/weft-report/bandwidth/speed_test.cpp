// What links allow, the part that was reached, and the sizes that fall off.

#include "weft-report/bandwidth/speed.hpp"

#include <gtest/gtest.h>

#include "support/draw.hpp"

namespace weft::report::bandwidth {
namespace {

using weft::test::Draw;

const Evidence stated{"log", 1, "line"};

Links with(double gpu, double nic, int nics) {
  Links links;
  links.gpu = gpu;
  for (int i = 0; i < nics; ++i) links.nics["node1"].ports[std::to_string(i)] = {nic, stated};
  return links;
}

TEST(BandwidthBounds, AreWhatTheSlowestLinkCarries) {
  const Links links = with(370.8, 50, 8);
  EXPECT_NEAR(bound_of("all_gather", {8, 1, false}, links, "").busbw, 370.8, 1e-9);
  EXPECT_NEAR(bound_of("all_reduce", {8, 1, false}, links, "").busbw, 370.8, 1e-9);
  EXPECT_NEAR(bound_of("all_reduce", {8, 1, true}, links, "").busbw, 370.8 * 14 / 9, 1e-9);  // 2(n-1)/(n+1)
  EXPECT_NEAR(bound_of("all_reduce", {2, 1, true}, links, "").busbw, 370.8, 1e-9);
  EXPECT_NEAR(bound_of("all_gather", {16, 2, false}, with(480, 50, 8), "").busbw, 400, 1e-9);
  EXPECT_EQ(bound_of("all_gather", {16, 2, false}, with(480, 50, 8), "").limit, Limit::network);
  // Each byte of an all_reduce leaves a node once: twice half of it on two nodes, nearly as on a ring on many.
  EXPECT_NEAR(bound_of("all_reduce", {16, 2, false}, with(900, 50, 8), "").busbw, 400 * 2 * 15.0 / 16, 1e-9);
  EXPECT_NEAR(bound_of("all_reduce", {512, 64, false}, with(900, 50, 8), "").busbw,
              400 * 64 * 511 / (512 * 63.0), 1e-9);
  EXPECT_NEAR(bound_of("alltoall", {16, 2, false}, links, "").busbw, 400 * 15 / (8 * 8.0), 1e-9);
  EXPECT_EQ(bound_of("all_reduce", {16, 2, false}, with(370.8, 0, 0), "").busbw, 0)
      << "nothing is known of the network";
  EXPECT_EQ(bound_of("all_reduce", {1, 1, false}, links, "").busbw, 0);
  EXPECT_EQ(bound_of("", {8, 1, false}, links, "").busbw, 0);
  EXPECT_EQ(bound_of("all_gather", {8, 1, false}, with(24, 0, 0), "").limit, Limit::pcie);
  EXPECT_NEAR(bound_of("all_gather", {8, 1, false}, Links{}, "NVIDIA H100 80GB HBM3").busbw, 370.8, 1e-9);
}

Table table_of(const std::vector<std::pair<std::int64_t, double>>& sizes) {
  Table table{.op = "all_reduce", .ranks = 8};
  for (const auto& [bytes, algbw] : sizes) {
    const Measured one{
        .microseconds = static_cast<double>(bytes) / algbw / 1000, .algbw = algbw, .busbw = algbw * 1.75};
    table.rows.push_back({.bytes = bytes, .out_of_place = one, .in_place = one});
  }
  return table;
}

TEST(BandwidthSpeed, NamesSizesThatFallOff) {
  const Speed speed = speed_of(table_of({{1 << 20, 100}, {1 << 21, 60}, {1 << 22, 120}, {1 << 23, 90}}),
                               "all_reduce", {8, 1, false}, with(370.8, 0, 0));
  EXPECT_EQ(speed.bytes, 1 << 23);
  EXPECT_NEAR(speed.busbw, 157.5, 1e-9);
  EXPECT_NEAR(speed.fraction, 157.5 / 370.8, 1e-9);
  ASSERT_EQ(speed.falls.size(), 2U);
  EXPECT_EQ(speed.falls[0].bytes, 1 << 21);
  EXPECT_EQ(speed.falls[0].before_bytes, 1 << 20);
  EXPECT_TRUE(speed.falls[0].recovers);
  EXPECT_EQ(speed.falls[1].bytes, 1 << 23);
  EXPECT_EQ(speed.falls[1].before_bytes, 1 << 22);
  EXPECT_FALSE(speed.falls[1].recovers);
}

TEST(BandwidthSpeed, KnowsNoFallWhereBandwidthOnlyGrows) {
  Draw draw(2);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::pair<std::int64_t, double>> sizes;
    double algbw = 0.01;
    for (int size = 8; size < 33; ++size) {
      algbw *= 1 + draw.below(1000) / 1000.0;
      sizes.emplace_back(std::int64_t{1} << size, algbw * (1 - draw.below(15) / 100.0));  // noise
    }
    EXPECT_TRUE(speed_of(table_of(sizes), "all_reduce", {8, 1, false}, Links{}).falls.empty());
  }
}

}  // namespace
}  // namespace weft::report::bandwidth
