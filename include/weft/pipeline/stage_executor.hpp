#pragma once
// Carries out a pipeline's schedule: one loop over the entries of a device's row, which knows no schedule by
// name.
//
// Rank d of the communicator is device d. Values go from stage to stage in buffers that are placed before the
// first step: a value has its memory from when it is computed or its receive is posted until nothing needs it
// any more, and values that never live at the same time share memory. Each ordered pair of devices that talk
// has a communicator of its own, on which messages go in the order of the rows, so that nothing waits behind
// what it does not depend on. Between two stages of one device nothing moves.
//
// One thread uses it. Construction and steps are collective over the communicator, which must outlive
// neither: the executor keeps what it needs.
//
//   std::vector<pipeline::Stage*> stages = {&mine};                      // this device's, rising
//   pipeline::StageExecutor executor(comm, plan, stages);
//   for (const Batch& batch : data) {
//     mine.load(batch);
//     executor.step(compute);                                            // all microbatches, there and back
//     optimizer.step(compute);
//   }
//
// WRONG: another schedule on some rank: an Error (mismatch) on all of them when the executor is made.
// WRONG: a stage that waits for another device of the pipeline: the schedule does not know of it, and may
// never get there.

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
  /// Microbatches differ in size: every message is announced by one of 8 bytes, so that who receives it need
  /// not know. All ranks alike.
  bool sizes_travel = false;
  /// A device that has waited this long for another says which stage, action and microbatch the pipeline
  /// hangs at; the communicator's timeout ends the wait.
  std::chrono::nanoseconds slow_after = std::chrono::seconds(4);
  /// Keeps when each entry began and ended.
  bool keep_times = false;
  /// Records what the device computes and waits for, on a track "pipeline".
  std::shared_ptr<Trace> trace{};
  /// With a trace: what simulate() says of these costs stands beside it, on a track "predicted", from the
  /// begin of each step on.
  std::optional<Problem> costs{};
};

/// When a device did what, by its own clock (std::chrono::steady_clock); of each entry of its row. What is
/// handed to a stream with a thread or a device of its own is over when it is handed over.
struct Execution {
  std::vector<Nanoseconds> begins, ends;
};

class StageExecutor {
 public:
  /// Collective. Without transfers in it the schedule is completed by with_communication().
  /// @param stages this device's, rising; they outlive the executor
  /// @throws Error (usage): a schedule that verify() refuses, another number of stages or devices;
  /// (mismatch) where ranks have different schedules, or what one stage gives is not what the next takes,
  /// naming both
  StageExecutor(Communicator comm, Schedule schedule, std::vector<Stage*> stages,
                const ExecutorOptions& options = {});
  ~StageExecutor();
  StageExecutor(StageExecutor&&) noexcept;

  /// All microbatches, there and back. On an inline stream all of this device's work is done when it returns.
  /// @throws what a stage throws, and every other device with it; Error (timeout, peer_lost) naming device,
  /// stage, action and microbatch. The executor is broken then
  void step(const Stream& compute);

  /// What it executes: with transfers.
  const Schedule& schedule() const;
  int device() const;
  /// Bytes of the buffers that values cross boundaries in.
  std::int64_t held_bytes() const;
  /// Payload bytes sent to other devices so far.
  std::uint64_t wire_bytes() const;
  /// Of the last step, where times are kept.
  const Execution& execution() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::pipeline
