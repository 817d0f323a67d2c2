#include "weft/pipeline/verify.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/schedule_rows.hpp"

namespace weft::pipeline {
namespace {

constexpr StageCosts costs{
    .forward = 1, .backward_input = 1, .backward_weight = 1, .activation = 10, .kept_for_weight = 4};

struct Case {
  std::vector<int> device_of;
  std::vector<std::vector<Action>> rows;
  int microbatches = 1;
  std::vector<Bytes> limit{};
};

/// The fault's text, or "".
std::string fault(const Case& given) {
  const int devices = static_cast<int>(given.rows.size());
  Problem problem{
      .devices = devices, .microbatches = given.microbatches, .costs = {}, .memory_limit = given.limit};
  problem.costs.stages.assign(given.device_of.size(), costs);
  problem.costs.hops.resize(given.device_of.size() - 1);
  const auto found = find_fault(
      {.name = "", .microbatches = given.microbatches, .device_of = given.device_of, .rows = given.rows},
      problem);
  return found ? found->what : "";
}
std::string fault(const char* only, int microbatches = 1, std::vector<Bytes> limit = {}) {
  return fault({{0}, test::rows({only}), microbatches, std::move(limit)});
}
std::string fault(std::initializer_list<const char*> two, int microbatches = 1) {
  return fault({{0, 1}, test::rows(two), microbatches});
}

TEST(Verify, TakesWhatIsRight) {
  EXPECT_EQ(fault("0F0 0B0"), "");
  EXPECT_EQ(fault("0F0 0F1 0I1 0B0 0W1", 2), "");
  EXPECT_EQ(fault({"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1I1 1W1"}, 2), "");
}

TEST(Verify, NamesAnEntryThatIsOfNoStageOrMicrobatch) {
  EXPECT_EQ(fault("0F0 0B0 1F0"), "device 0, entry 2 (1F0): there are 1 stages");
  EXPECT_EQ(fault("0F0 0B0 -1F0"), "device 0, entry 2 (-1F0): there are 1 stages");
  EXPECT_EQ(fault("0F0 0B0 0F1"), "device 0, entry 2 (0F1): there are 1 microbatches");
  EXPECT_EQ(fault("0F0 0B0 0F"), "device 0, entry 2 (0F): there are 1 microbatches");
  EXPECT_EQ(fault("0UNSHARD3 0F0 0B0"), "device 0, entry 0 (0UNSHARD3): is of a stage, not of a microbatch");
  EXPECT_EQ(fault({"0F0 1F0", ""}), "device 0, entry 1 (1F0): its stage is on device 1");
  EXPECT_EQ(fault("0F0 0WAIT_B0"), "device 0, entry 1 (0WAIT_B0): is never awaited: it is not posted");
}

TEST(Verify, WantsEveryComputationOnceAndInOrder) {
  EXPECT_EQ(fault("0B0 0F0"), "device 0, entry 0 (0B0): its forward has not run");
  EXPECT_EQ(fault("0F0 0F0"), "device 0, entry 1 (0F0): comes a second time");
  EXPECT_EQ(fault("0F0 0B0 0B0"), "device 0, entry 2 (0B0): comes a second time");
  EXPECT_EQ(fault("0F0 0I0 0B0"), "device 0, entry 2 (0B0): its backward has run");
  EXPECT_EQ(fault("0F0 0B0 0W0"), "device 0, entry 2 (0W0): its input gradient (I) has not run");
  EXPECT_EQ(fault("0F0 0W0 0I0"), "device 0, entry 1 (0W0): its input gradient (I) has not run");
  EXPECT_EQ(fault("0F0 0I0"), "device 0: 0W0 is missing");
  EXPECT_EQ(fault("0F0"), "device 0: 0B0 is missing");
  EXPECT_EQ(fault({"0F0 0B0", ""}), "device 1: 1F0 is missing");
}

TEST(Verify, SeesWhatStagesOfOneDeviceNeedOfEachOther) {
  EXPECT_EQ(fault({{0, 0}, test::rows({"0F0 1F0 1B0 0B0"})}), "");
  EXPECT_EQ(fault({{0, 0}, test::rows({"1F0 0F0 1B0 0B0"})}),
            "device 0, entry 0 (1F0): its input is not there");
  EXPECT_EQ(fault({{0, 0}, test::rows({"0F0 1F0 0B0 1B0"})}),
            "device 0, entry 2 (0B0): the gradient of its output is not there");
}

TEST(Verify, NamesTheCircleOfADeadlock) {
  EXPECT_EQ(
      fault({"0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"}, 2),
      "device 0, entry 1 (0B0): deadlock: it waits for 1B0 of device 1; device 1, entry 0 (1F1) for 0F1 of "
      "device 0");
}

TEST(Verify, HoldsActivationsAgainstTheLimit) {
  EXPECT_EQ(fault("0F0 0F1 0I0 0W0 0B1", 2, {20}), "");
  EXPECT_EQ(fault("0F0 0F1 0I0 0W0 0B1", 2, {19}),
            "device 0, entry 1 (0F1): activations would hold 20 bytes, the limit is 19");
  EXPECT_EQ(fault("0F0 0I0 0F1 0W0 0B1", 2, {14}), "");
  EXPECT_EQ(fault("0F0 0I0 0F1 0W0 0B1", 2, {13}),
            "device 0, entry 2 (0F1): activations would hold 14 bytes, the limit is 13");
  EXPECT_EQ(fault("0F0 0B0 0F1 0I1 0W1", 2, {10}), "");
  EXPECT_EQ(fault("0F0 0B0", 1, {-1}),
            "device 0, entry 0 (0F0): activations would hold 10 bytes, the limit is -1");
}

TEST(Verify, WantsAPairThatOverlapsToStartAtOnce) {
  EXPECT_EQ(fault("0F0 0F1& 0B0 0B1", 2), "");
  EXPECT_EQ(fault("0F0& 0B0"), "device 0, entry 0 (0F0): overlaps 0B0, which needs it");
  EXPECT_EQ(fault("0F0& 0F1 0B0 0B1", 2), "device 0, entry 0 (0F0): overlaps 0F1, which is not a backward");
  EXPECT_EQ(fault("0F0 0B0&"), "device 0, entry 1 (0B0): only a forward overlaps what is next");
  // Device 1 cannot give 1B0 before it has 0F1, which is in the pair.
  EXPECT_EQ(
      fault({"0F0 0F1& 0B0 0B1", "1F0 1F1 1B0 1B1"}, 2),
      "device 0, entry 2 (0B0): deadlock: it waits for 1B0 of device 1; device 1, entry 1 (1F1) for 0F1 of "
      "device 0");
}

const char* const sender = "0F0 0SEND_F0 0RECV_B0 0WAIT_RECV_B0 0B0 0WAIT_SEND_F0";
const char* const receiver = "1RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0";

TEST(Verify, WantsEveryValueSentReceivedAndAwaited) {
  EXPECT_EQ(fault({sender, receiver}), "");
  EXPECT_EQ(fault({"0SEND_F0 0F0 0RECV_B0 0WAIT_RECV_B0 0B0 0WAIT_SEND_F0", receiver}),
            "device 0, entry 0 (0SEND_F0): its forward has not run");
  EXPECT_EQ(fault({"0F0 0SEND_F0 0RECV_B0 0WAIT_RECV_B0 0B0", receiver}),
            "device 0, entry 1 (0SEND_F0): is never awaited");
  EXPECT_EQ(fault({"0F0 0RECV_B0 0WAIT_RECV_B0 0B0", receiver}),
            "device 0: 0SEND_F0 is missing: another device needs the value");
  EXPECT_EQ(fault({"0F0 0SEND_F0 0RECV_B0 0B0 0WAIT_RECV_B0 0WAIT_SEND_F0", receiver}),
            "device 0, entry 3 (0B0): the gradient of its output is not there");
  EXPECT_EQ(fault({sender, "1RECV_F0 1F0 1WAIT_RECV_F0 1B0 1SEND_B0 1WAIT_SEND_B0"}),
            "device 1, entry 1 (1F0): its input is not there");
  EXPECT_EQ(fault({sender, "1WAIT_RECV_F0 1RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0"}),
            "device 1, entry 0 (1WAIT_RECV_F0): was not posted before");
  EXPECT_EQ(fault({sender, "1RECV_F0 1WAIT_RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0"}),
            "device 1, entry 2 (1WAIT_RECV_F0): comes a second time");
  EXPECT_EQ(fault({"0F0 0RECV_F0", ""}), "device 0, entry 1 (0RECV_F0): no other device has its input");
  EXPECT_EQ(fault({"0F0 0SEND_B0", ""}), "device 0, entry 1 (0SEND_B0): no other device needs it");
}

TEST(Verify, WantsNoTransfersWithinADevice) {
  EXPECT_EQ(fault({{0, 0}, test::rows({"0F0 0SEND_F0 1RECV_F0 1F0 1B0 0B0"})}),
            "device 0, entry 1 (0SEND_F0): no other device needs it");
}

TEST(Verify, PairsTransfersByTheirOrderBetweenTwoDevices) {
  EXPECT_EQ(
      fault({"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0WAIT_RECV_B0 0B0 0RECV_B1 0WAIT_RECV_B1 0B1 0WAIT_SEND_F0 "
             "0WAIT_SEND_F1",
             "1RECV_F1 1RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 1WAIT_RECV_F1 1F1 1B1 1SEND_B1 1WAIT_SEND_B0 "
             "1WAIT_SEND_B1"},
            2),
      "device 0, entry 1 (0SEND_F0): meets 1RECV_F1 (device 1, entry 0): each is transfer 0 from device 0 to "
      "1");
}

TEST(Verify, StoresNothingOnTheWay) {
  // Each waits for its send to be through before it posts the receive that the other's send waits for.
  EXPECT_EQ(
      fault({{0, 1, 0},
             test::rows({"0F0 0SEND_F0 0WAIT_SEND_F0 2RECV_F0 2WAIT_RECV_F0 2F0 2B0 2SEND_B0 2WAIT_SEND_B0 "
                         "0RECV_B0 0WAIT_RECV_B0 0B0",
                         "1RECV_F0 1WAIT_RECV_F0 1F0 1SEND_F0 1WAIT_SEND_F0 1RECV_B0 1WAIT_RECV_B0 1B0 "
                         "1SEND_B0 1WAIT_SEND_B0"})}),
      "");
  EXPECT_EQ(
      fault({"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0WAIT_SEND_F1 0WAIT_RECV_B0 0B0 0RECV_B1 0WAIT_RECV_B1 0B1 "
             "0WAIT_SEND_F0",
             "1RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0 1RECV_F1 1WAIT_RECV_F1 1F1 1B1 1SEND_B1 "
             "1WAIT_SEND_B1"},
            2),
      "");
  EXPECT_EQ(
      fault({"0F0 0SEND_F0 0F1 0SEND_F1 0WAIT_SEND_F1 0RECV_B0 0WAIT_RECV_B0 0B0 0RECV_B1 0WAIT_RECV_B1 0B1 "
             "0WAIT_SEND_F0",
             "1RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0 1RECV_F1 1WAIT_RECV_F1 1F1 1B1 1SEND_B1 "
             "1WAIT_SEND_B1"},
            2),
      "device 0, entry 4 (0WAIT_SEND_F1): deadlock: it waits for 1RECV_F1 of device 1; device 1, entry 5 "
      "(1WAIT_SEND_B0) for 0RECV_B0 of device 0");
}

TEST(Verify, WantsParametersWholeWhereTheyAreUnsharded) {
  EXPECT_EQ(fault("0UNSHARD 0WAIT_UNSHARD 0F0 0RESHARD 0UNSHARD 0WAIT_UNSHARD 0B0"), "");
  EXPECT_EQ(fault("0UNSHARD 0WAIT_UNSHARD 0F0 0B0 0RESHARD"), "");
  const char* const not_whole = "its parameters are not whole: no UNSHARD was awaited";
  EXPECT_EQ(fault("0UNSHARD 0F0 0WAIT_UNSHARD 0B0"), text("device 0, entry 1 (0F0): ", not_whole));
  EXPECT_EQ(fault("0UNSHARD 0WAIT_UNSHARD 0F0 0RESHARD 0B0"), text("device 0, entry 4 (0B0): ", not_whole));
  EXPECT_EQ(fault("0F0 0UNSHARD 0WAIT_UNSHARD 0B0"), text("device 0, entry 0 (0F0): ", not_whole));
  EXPECT_EQ(fault("0UNSHARD 0WAIT_UNSHARD 0UNSHARD 0F0 0B0"),
            "device 0, entry 2 (0UNSHARD): its parameters are not sharded");
  EXPECT_EQ(fault("0UNSHARD 0WAIT_UNSHARD 0WAIT_UNSHARD 0F0 0B0"),
            "device 0, entry 2 (0WAIT_UNSHARD): no UNSHARD is under way");
  EXPECT_EQ(fault("0RESHARD 0F0 0B0"), "device 0, entry 0 (0RESHARD): its parameters are not whole");
  EXPECT_EQ(fault("0UNSHARD 0WAIT_UNSHARD 0F0 0B0 0RESHARD 0UNSHARD"),
            "device 0, entry 5 (0UNSHARD): is never awaited");
}

TEST(Verify, WantsGradientsReducedOnceAfterTheLast) {
  EXPECT_EQ(fault("0F0 0I0 0W0 0REDUCE_GRAD 0WAIT_REDUCE_GRAD"), "");
  EXPECT_EQ(fault("0F0 0I0 0REDUCE_GRAD 0W0 0WAIT_REDUCE_GRAD"),
            "device 0, entry 2 (0REDUCE_GRAD): the last backward of 1 microbatches has not run");
  EXPECT_EQ(fault("0F0 0B0 0REDUCE_GRAD"), "device 0, entry 2 (0REDUCE_GRAD): is never awaited");
  EXPECT_EQ(fault("0F0 0B0 0WAIT_REDUCE_GRAD"),
            "device 0, entry 2 (0WAIT_REDUCE_GRAD): was not posted before");
  EXPECT_EQ(fault("0F0 0B0 0REDUCE_GRAD 0REDUCE_GRAD"),
            "device 0, entry 3 (0REDUCE_GRAD): comes a second time");
  EXPECT_EQ(fault({"0F0 0B0 0REDUCE_GRAD 0WAIT_REDUCE_GRAD", "1F0 1B0"}),
            "device 1: 1REDUCE_GRAD is missing, other stages have it");
}

TEST(Verify, RecomputesBeforeTheBackwardAndHoldsNothingUntilThen) {
  EXPECT_EQ(fault("0F0 0F1 0RECOMPUTE0 0B0 0RECOMPUTE1 0I1 0W1", 2, {10}), "");
  EXPECT_EQ(fault("0F0 0F1 0RECOMPUTE0 0RECOMPUTE1 0B0 0B1", 2, {10}),
            "device 0, entry 3 (0RECOMPUTE1): activations would hold 20 bytes, the limit is 10");
  EXPECT_EQ(fault("0RECOMPUTE0 0F0 0B0"), "device 0, entry 0 (0RECOMPUTE0): its forward has not run");
  EXPECT_EQ(fault("0F0 0B0 0RECOMPUTE0"), "device 0, entry 1 (0B0): its RECOMPUTE comes later");
  EXPECT_EQ(fault("0UNSHARD 0WAIT_UNSHARD 0F0 0RESHARD 0RECOMPUTE0 0UNSHARD 0WAIT_UNSHARD 0B0"),
            "device 0, entry 4 (0RECOMPUTE0): its parameters are not whole: no UNSHARD was awaited");
}

TEST(Verify, LoadsWhatWasOffloadedBeforeItIsUsed) {
  EXPECT_EQ(fault("0F0 0OFFLOAD0 0WAIT_OFFLOAD0 0F1 0B1 0LOAD0 0WAIT_LOAD0 0B0", 2, {10}), "");
  EXPECT_EQ(fault("0F0 0I0 0OFFLOAD0 0WAIT_OFFLOAD0 0F1 0B1 0LOAD0 0WAIT_LOAD0 0W0", 2, {10}), "");
  EXPECT_EQ(fault("0F0 0OFFLOAD0 0F1 0WAIT_OFFLOAD0 0B1 0LOAD0 0WAIT_LOAD0 0B0", 2, {10}),
            "device 0, entry 2 (0F1): activations would hold 20 bytes, the limit is 10");
  EXPECT_EQ(fault("0F0 0OFFLOAD0 0WAIT_OFFLOAD0 0F1 0LOAD0 0B1 0WAIT_LOAD0 0B0", 2, {10}),
            "device 0, entry 4 (0LOAD0): activations would hold 20 bytes, the limit is 10");
  const char* const on_host = "its activation is on the host: no LOAD was awaited";
  EXPECT_EQ(fault("0F0 0OFFLOAD0 0WAIT_OFFLOAD0 0LOAD0 0B0"), text("device 0, entry 4 (0B0): ", on_host));
  EXPECT_EQ(fault("0F0 0OFFLOAD0 0B0 0WAIT_OFFLOAD0"), text("device 0, entry 2 (0B0): ", on_host));
  EXPECT_EQ(fault("0F0 0OFFLOAD0 0LOAD0 0WAIT_OFFLOAD0 0WAIT_LOAD0 0B0"),
            "device 0, entry 2 (0LOAD0): no offload of it was awaited");
  EXPECT_EQ(fault("0F0 0B0 0OFFLOAD0"), "device 0, entry 2 (0OFFLOAD0): its activation is no longer held");
  EXPECT_EQ(fault("0OFFLOAD0 0F0 0B0"), "device 0, entry 0 (0OFFLOAD0): its forward has not run");
}

TEST(Verify, RefusesAProblemOfOtherDevicesStagesOrMicrobatches) {
  const Schedule schedule{
      .name = "small", .microbatches = 1, .device_of = {0}, .rows = test::rows({"0F0 0B0"})};
  Problem problem{.devices = 1, .microbatches = 1, .costs = uniform_costs(1, 1, costs)};
  EXPECT_NO_THROW(verify(schedule, problem));
  problem.microbatches = 2;
  test::expect_error(ErrorKind::usage, {"schedule 'small': 1 microbatches, and a problem of 2"},
                     [&] { verify(schedule, problem); });
  problem = {.devices = 1, .microbatches = 1, .costs = uniform_costs(1, 2, costs)};
  EXPECT_EQ(find_fault(schedule, problem)->what, "a placement of 1 stages, and costs of 2");
  problem = {.devices = 2, .microbatches = 1, .costs = uniform_costs(1, 1, costs)};
  EXPECT_EQ(find_fault(schedule, problem)->what, "rows for 1 devices, and a problem of 2");
}

}  // namespace
}  // namespace weft::pipeline
