#pragma once
// Executes a pipeline's schedule: one loop over the entries of a device's row, which knows no schedule by
// name.
//
// Rank d of the communicator is device d. The memory of values that go from stage to stage is planned before
// the first step. A value has its memory from when it is computed, or its receive is posted, to its last use.
// Values that are never alive together share memory. Each ordered pair of devices that talk has a
// communicator of its own, on which messages go in the order of the rows; so no message waits for one that it
// does not depend on. Between two stages of one device nothing is copied.
//
// One thread at a time uses it: a call while another thread is in one is an Error that names both.
// Construction and steps are collective over the communicator. The executor keeps its own
// handle of that.
//
//   std::vector<pipeline::Stage*> stages = {&mine};           // this device's, ascending
//   pipeline::StageExecutor executor(comm, plan, stages);
//   for (const Batch& batch : data) {
//     mine.load(batch);
//     executor.step(compute);                                 // all microbatches, forward and backward
//     optimizer.step(compute);
//   }
//
// WRONG: another schedule on some rank: the constructor throws an Error (mismatch) on all of them.
// WRONG: a stage that waits for another device of the pipeline: the schedule does not know of that wait, and
// may deadlock.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/stage.hpp"

namespace weft::pipeline {

struct ExecutorOptions {
  /// Microbatches may differ in size: a message of 8 bytes with its size precedes every message. Must be the
  /// same on all ranks.
  bool sizes_travel = false;
  /// A device that has waited this long for another logs which device, stage, action and microbatch it waits
  /// for. The communicator's timeout (WEFT_TIMEOUT) ends the wait.
  std::chrono::nanoseconds slow_after = std::chrono::seconds(4);
  /// Keeps when each entry began and ended: execution().
  bool keep_times = false;
  /// Records the computations and waits of this device, on a track "pipeline".
  std::shared_ptr<Trace> trace{};
  /// With a trace: each step also gets the times that simulate() predicts for these costs, on a track
  /// "predicted".
  std::optional<Problem> costs{};
};

/// When each entry of a device's row began and ended, by its own clock (std::chrono::steady_clock). Work on a
/// stream that is not inline ends when it is queued.
struct Execution {
  std::vector<Nanoseconds> begins, ends;
};

class StageExecutor {
 public:
  /// Collective. A schedule without transfers is completed by with_communication().
  /// @param stages this device's, ascending; they outlive the executor
  /// @throws Error (usage): a schedule that verify() refuses, another number of stages or devices;
  /// (mismatch) if ranks have different schedules, or the output of a stage is not the input of the next,
  /// naming both
  StageExecutor(Communicator comm, Schedule schedule, std::vector<Stage*> stages,
                const ExecutorOptions& options = {});
  ~StageExecutor();
  StageExecutor(StageExecutor&&) noexcept;

  /// Runs all microbatches forward and backward. On an inline stream all of this device's work is done when
  /// it returns. @throws what a stage throws, while every other device throws an Error with its text; Error
  /// (timeout, peer_lost) naming device, stage, action and microbatch. The executor cannot be used afterwards
  void step(const Stream& compute);

  /// The schedule with transfers.
  const Schedule& schedule() const;
  int device() const;
  /// The memory of all values that cross boundaries.
  std::int64_t held_bytes() const;
  /// Payload bytes sent to other devices so far.
  std::uint64_t wire_bytes() const;
  /// The times of the last step, with keep_times.
  const Execution& execution() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::pipeline
