#pragma once
// Checkpoints of a training: it goes on from the newest one, saves at times and when it is asked, and ends when it is to.
//
//   Checkpoints checkpoints(comm, {.folder = "checkpoints", .every = 100, .run = "gpt-ref, seed 1"});
//   options.batches = checkpoints.batches(0, comm.size());
//   for (auto step = checkpoints.resume(trainer); step < steps; ++step) {
//     trainer.step();
//     if (!checkpoints.after_step(trainer, step + 1, step + 1 == steps)) return 75;
//   }
//
// It is a checkpoint::Checkpointer with any trainer. Without a folder it does nothing. Every call is collective.

#include <memory>
#include <string>

#include "weft/zero/sharded_optimizer.hpp"

namespace weft::examples {

struct CheckpointOptions {
  std::string folder{};    ///< none: no checkpoints
  std::int64_t every = 0;  ///< steps; 0: at the end and when asked
  int keep_last = 2;
  /// What must be the same for a training to go on from a checkpoint: model, seed, length of the schedule.
  std::string run{};
};

class Checkpoints {
 public:
  /// @throws Error (usage) where weft was built without checkpoints, and as checkpoint::Saver
  Checkpoints(Communicator comm, CheckpointOptions options);
  ~Checkpoints();

  /// How many batches a step has: those of the newest checkpoint, else what is asked for, else `otherwise`. They
  /// belong to the run and are saved with it, so that it goes on alike with other ranks.
  /// @param asked 0: nothing is @throws Error (usage) where a checkpoint says another number
  int batches(int asked, int otherwise);
  /// Loads the newest one. @returns how many steps were done then; 0 where there is none
  /// @throws Error (usage) for one of another run
  template <class Trainer>
  std::int64_t resume(Trainer& trainer) {
    const std::int64_t steps = load(trainer.optimizer(), trainer.compute());
    trainer.go_on_after(steps);
    return steps;
  }
  /// Saves where it is time, or asked for. @returns whether to go on; false: a notice to end came, and all is saved
  template <class Trainer>
  bool after_step(Trainer& trainer, std::int64_t steps, bool last) {
    return save(trainer.optimizer(), trainer.compute(), steps, last);
  }

 private:
  class State;
  std::int64_t load(zero::ShardedOptimizer& optimizer, const Stream& compute);
  bool save(zero::ShardedOptimizer& optimizer, const Stream& compute, std::int64_t steps, bool last);

  std::unique_ptr<State> state_;  // null: weft was built without checkpoints
  std::int64_t batches_ = 0;
};

}  // namespace weft::examples
