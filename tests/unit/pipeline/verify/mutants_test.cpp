#include "unit/pipeline/verify/mutants.hpp"

#include <gtest/gtest.h>

#include "support/schedule_rows.hpp"
#include "unit/pipeline/verify/oracle.hpp"

namespace weft::test {
namespace {

std::string rule(std::initializer_list<const char*> lines, int microbatches = 1) {
  const int devices = static_cast<int>(lines.size());
  return broken_rule({.name = "",
                      .microbatches = microbatches,
                      .device_of = pipeline::looped_placement(devices),
                      .rows = rows(lines)},
                     {.devices = devices,
                      .microbatches = microbatches,
                      .costs = pipeline::uniform_costs(devices, 1, {1, 1, 1, 2, 1})});
}

TEST(Oracle, KnowsWhatIsRightAndWhatIsStuck) {
  EXPECT_EQ(rule({"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1I1 1W1"}, 2), "");
  EXPECT_EQ(rule({"0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"}, 2), "deadlock");
  EXPECT_EQ(rule({"0F0 0SEND_F0 0WAIT_SEND_F0 0RECV_B0 0WAIT_RECV_B0 0B0",
                  "1RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0"}),
            "");
  EXPECT_EQ(rule({"0RECV_B0 0WAIT_RECV_B0 0F0 0SEND_F0 0WAIT_SEND_F0 0B0",
                  "1RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0"}),
            "deadlock");
}

TEST(Verify, AgreesWithTheOracleOnMutants) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) try_mutant(seed, tally);
  EXPECT_TRUE(tally.agrees()) << tally.differences;
  EXPECT_GT(tally.valid, 20);
  EXPECT_GT(tally.deadlocks, 0);
}

}  // namespace
}  // namespace weft::test
