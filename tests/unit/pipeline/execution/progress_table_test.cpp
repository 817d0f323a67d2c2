// Which device a wait is said to end at, from what each has published of its step.

#include "pipeline/execution/progress_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "fake_nccl/threads.hpp"
#include "support/fake_cuda.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/passes.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline::detail {
namespace {

/// The entry of a device's row that is written so.
std::size_t entry_of(const Schedule& schedule, std::size_t device, std::string_view written) {
  const std::vector<Action>& row = schedule.rows[device];
  const auto found = std::ranges::find_if(row, [&](const Action& action) { return text(action) == written; });
  EXPECT_NE(found, row.end()) << written << " is not in " << text(schedule);
  return static_cast<std::size_t>(found - row.begin());
}

/// What device 0 says of its wait for the gradient of microbatch 0 in step 2, after device 1 has published
/// `entry` (none between two steps) of `step`.
std::string said(std::uint64_t step, std::string_view entry) {
  const Schedule schedule = with_communication(
      one_f_one_b({.devices = 2, .microbatches = 2, .costs = uniform_costs(2, 1, {1, 1, 1})}));
  std::string result;
  run_as_threads(2, [&](Communicator comm) {
    const std::size_t waits = entry_of(schedule, 0, "0WAIT_RECV_B0");
    ProgressTable table(comm, schedule);
    table.begin(comm.rank() == 0 ? 2 : step);
    if (comm.rank() == 0) table.set(waits);
    if (comm.rank() == 1 && entry.empty()) table.clear();
    if (comm.rank() == 1 && !entry.empty()) table.set(entry_of(schedule, 1, entry));
    comm.barrier({}).wait();
    if (comm.rank() == 0) result = table.blocked_by(schedule.rows[0][waits]);
    comm.barrier({}).wait();
  });
  return result;
}

TEST(ProgressTable, SaysWhereTheDeviceIsThatOwesTheMessage) {
  EXPECT_EQ(said(2, "1B0"), "device 1 is at 1B0 (stage 1, microbatch 0)");
  EXPECT_EQ(said(2, "1B1"), "device 1 is at 1B1 (stage 1, microbatch 1); it has posted 1SEND_B0");
}

TEST(ProgressTable, KnowsThatADeviceHasNotBegunTheStep) {
  EXPECT_EQ(said(1, "1B1"), "device 1 is at 1B1 (stage 1, microbatch 1) of step 1");
  EXPECT_EQ(said(1, ""), "device 1 is in no step, and owes 1SEND_B0 (stage 1, microbatch 0)");
}

TEST(ProgressTable, FollowsAWaitThatIsOfTheStepBefore) {
  EXPECT_EQ(
      said(1, "1WAIT_SEND_B1"),
      "device 1 is at 1WAIT_SEND_B1 (stage 1, microbatch 1) of step 1, though device 0 has posted its part");
}

TEST(ProgressTable, ADeviceBeyondTheStepHasPostedAllOfIt) {
  EXPECT_EQ(said(2, ""), "device 1 is in no step; it has posted 1SEND_B0");
  EXPECT_EQ(said(3, "1F0"), "device 1 is at 1F0 (stage 1, microbatch 0) of step 3; it has posted 1SEND_B0");
}

/// What device 0 says of its send of microbatch 1, while device 1 is at `entry` of the same step.
void say_of_send(Communicator comm, std::string_view entry, std::string& result) {
  const Schedule schedule = with_communication(
      one_f_one_b({.devices = 2, .microbatches = 2, .costs = uniform_costs(2, 1, {1, 1, 1})}));
  ProgressTable table(comm, schedule);
  table.begin(1);
  if (comm.rank() == 1) table.set(entry_of(schedule, 1, entry));
  comm.barrier({}).wait();
  if (comm.rank() == 0) result = table.blocked_by(awaited(Action{ActionType::send_forward, 0, 1}));
  comm.barrier({}).wait();
}

TEST(ProgressTable, OnAGpuAReceiveIsPostedWhereItIsAwaited) {
  std::string result;
  run_as_threads(2, [&](Communicator comm) { say_of_send(comm, "1F0", result); });
  EXPECT_EQ(result, "device 1 is at 1F0 (stage 1, microbatch 0); it has posted 1RECV_F1");

  const test::WithFakeCuda cuda;
  test::FakeNcclRanks nccl;
  test::run_with_fakes(nccl, 2, [&](Communicator comm) { say_of_send(comm, "1F0", result); });
  EXPECT_EQ(result, "device 1 is at 1F0 (stage 1, microbatch 0)");
  test::run_with_fakes(nccl, 2, [&](Communicator comm) { say_of_send(comm, "1WAIT_RECV_F1", result); });
  EXPECT_EQ(result, "device 1 is at 1WAIT_RECV_F1 (stage 1, microbatch 1); it has posted 1RECV_F1");
}

}  // namespace
}  // namespace weft::pipeline::detail
