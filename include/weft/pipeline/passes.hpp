#pragma once
// Passes complete a schedule of computation: they add transfers, gathers, reductions, recomputation and
// copies to the host, entry by entry.
//
//   Schedule plan = with_recompute(zb_h1(...), {0});        // first, for they change what is held
//   plan = with_offload(plan, [](int stage, int) { return stage == 1; });
//   plan = with_unshards(plan, {.ahead = 1, .kept = 3});    // then entries that need no other device
//   plan = with_reductions(plan);
//   plan = with_communication(plan, {.ahead = 2});          // last
//   verify(plan, problem);
//
// Every pass is a pure function from one schedule that verify() accepts to another, in linear time. It keeps
// the order of the entries that are there. "Ahead" and "behind" count computations of the row: F, B, I, W and
// RECOMPUTE. Nothing is put between the two of a pair that overlaps: it comes before or after both.
//
// All @throw Error (usage): an entry of a stage or microbatch that does not exist, an option below 0, entries
// in the schedule of the kind that the pass adds.
//
// WRONG: with_recompute after with_offload of the same stage: an activation that is offloaded is not held
// (throws).

#include <functional>
#include <vector>

#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

struct CommunicationOptions {
  /// A receive is posted this many computations before the one that needs it, or earlier if a later message
  /// from the same device is needed before that.
  int ahead = 2;
};
/// Adds SEND right after the computation of every value that another device needs; RECV ahead of its use, in
/// the order in which the other side sends; WAIT_RECV right before the use. WAIT_SEND stands where the
/// transfer is surely done: after the WAIT_RECV of something that the other device computed after it used
/// this value, else at the end of the row. So it never costs time, and the pass adds no deadlock.
Schedule with_communication(const Schedule& schedule, const CommunicationOptions& options = {});

struct UnshardOptions {
  int ahead = 1;  ///< UNSHARD is posted this many computations before the one that needs it
  /// A stage that computes again within this many computations stays unsharded meanwhile; so does one that
  /// would be gathered again at once.
  int kept = 3;
  std::vector<int> stages{};  ///< whose parameters are sharded; empty: all
};
/// For ZeRO-3: a stage's parameters are gathered shortly before they are used and released afterwards,
/// instead of all at the begin of the step. WAIT_UNSHARD stands right before a use, RESHARD right after the
/// last for a while.
Schedule with_unshards(const Schedule& schedule, const UnshardOptions& options = {});

/// Adds REDUCE_GRAD right after a stage's last W or B; all are awaited at the end of the row.
Schedule with_reductions(const Schedule& schedule);

/// Adds RECOMPUTE right before each I or B of these stages.
Schedule with_recompute(const Schedule& schedule, const std::vector<int>& stages);

struct OffloadOptions {
  int behind = 1;  ///< WAIT_OFFLOAD, where memory is free, stands this many computations after F
  int ahead = 1;   ///< LOAD is posted this many computations before I or B
};
/// Adds OFFLOAD right after F and LOAD before I or B, for those of `which` (stage, microbatch) that have a
/// computation between WAIT_OFFLOAD and LOAD. Activations that are recomputed stay.
Schedule with_offload(const Schedule& schedule, const std::function<bool(int, int)>& which,
                      const OffloadOptions& options = {});

}  // namespace weft::pipeline
