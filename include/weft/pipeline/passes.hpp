#pragma once
// What a schedule of computation needs beside it, added entry by entry: transfers, gathers, reductions,
// recomputation, copies to the host.
//
//   Schedule plan = with_recompute(zb_h1(...), {0});        // first what changes what is held and computed
//   plan = with_offload(plan, [](int stage, int) { return stage == 1; });
//   plan = with_unshards(plan, {.ahead = 1, .kept = 3});    // then what waits on nobody else
//   plan = with_reductions(plan);
//   plan = with_communication(plan, {.ahead = 2});          // last
//   verify(plan, problem);
//
// Every pass is a pure function from a schedule that verify takes to another; the order of what was there
// stays, and without the added entries it is what it was. Linear. What a pass adds must not be there before.
// "Ahead" and "behind" count computations of the row: F, B, I, W and RECOMPUTE. Nothing is put between the
// two of a pair that overlaps: it comes before or after both.
//
// All @throw Error (usage): an entry of a stage or microbatch that is not there, an option below 0, entries
// of the pass's own kind in the schedule.
//
// WRONG: with_recompute after with_offload of the same stage: what was offloaded is no longer held then
// (throws).

#include <functional>
#include <vector>

#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

struct CommunicationOptions {
  /// A receive is posted by this many computations before the one that needs it, or earlier, where what is
  /// sent after it on the same way is needed before.
  int ahead = 2;
};
/// SEND right after the value is computed, for every value that another device needs; RECV ahead, in the
/// order in which the other side sends; WAIT_RECV right before use. WAIT_SEND stands where the transfer is
/// through in any case: after the WAIT_RECV of something that the other device sent after it used this value,
/// else at the end of the row. It never costs time, so that rows wait for nothing that they did not wait for
/// without transfers: no deadlock is added.
Schedule with_communication(const Schedule& schedule, const CommunicationOptions& options = {});

struct UnshardOptions {
  int ahead = 1;  ///< UNSHARD is posted by this many computations before the one that needs it
  /// A stage that computes again within this many computations stays whole meanwhile; and where it would be
  /// gathered anew at once.
  int kept = 3;
  std::vector<int> stages{};  ///< whose parameters are sharded; empty: of all
};
/// For ZeRO-3: each use's parameters are gathered shortly before it and let go after it, not all of them at
/// the step's begin. WAIT_UNSHARD right before use, RESHARD right after the last for a while.
Schedule with_unshards(const Schedule& schedule, const UnshardOptions& options = {});

/// REDUCE_GRAD right after a stage's last W or B; all are awaited at the end of the row.
Schedule with_reductions(const Schedule& schedule);

/// RECOMPUTE right before each I or B of these stages.
Schedule with_recompute(const Schedule& schedule, const std::vector<int>& stages);

struct OffloadOptions {
  int behind =
      1;  ///< the device waits for the copy after this many computations more: memory is free from there
  int ahead = 1;  ///< LOAD is posted by this many computations before I or B
};
/// OFFLOAD right after F and LOAD before I or B, for those of `which` (stage, microbatch) that have a
/// computation between WAIT_OFFLOAD and LOAD; what is recomputed stays.
Schedule with_offload(const Schedule& schedule, const std::function<bool(int, int)>& which,
                      const OffloadOptions& options = {});

}  // namespace weft::pipeline
