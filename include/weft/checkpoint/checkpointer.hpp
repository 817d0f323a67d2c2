#pragma once
// The checkpoints of a training loop: it goes on from the newest one, saves every so many steps and when asked, and ends when told to.
//
//   checkpoint::Checkpointer checkpointer(comm, {.folder = "checkpoints", .every = 100, .run = "my model, seed 1"});
//   std::int64_t step = checkpointer.resume([&](const auto& found) { adam.load_state(found, compute); });
//   for (; step < steps; ++step) {
//     train_one_step();
//     if (!checkpointer.after_step(step + 1, step + 1 == steps, [&] { return adam.state(compute); })) return 75;
//   }
//
// A trainer that ends with 75 is started again by weft-launch --min-ranks, by Slurm and by Kubernetes, with whatever ranks they have, and goes on.
// It is made of a Saver (saves behind the training), Requests (SIGUSR1, the file checkpoint-now) and Checkpoint::newest(); use those where a loop
// needs more. Without a folder it does nothing, so that a program's --checkpoint may be left out.
//
// One thread at a time uses it (an Error otherwise), and every rank makes one; all calls but release() are collective. after_step() costs what Requests::next() does.
//
// Where parameters are alike on all ranks and the optimizer is the loop's own, name them instead. They are copied at once, on rank 0, so that
// they may change. The price is that copy; with a State there is none, and release() comes before what it names changes.
//
//   for (std::int64_t step = checkpointer.resume({{"weights", weights.view()}}); step < steps; ++step) {
//     train_one_step();
//     if (!checkpointer.after_step(step + 1, step + 1 == steps, {{"weights", weights.view()}})) return 75;
//   }
//
// WRONG: after_step() before the stream that writes the weights has done so. ShardedOptimizer::state() waits for it; replicas do not.
// WRONG: a State of memory that an optimizer of your own changes, without release().

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint/checkpoint.hpp"
#include "weft/checkpoint/piece.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::checkpoint {

struct CheckpointerOptions {
  std::string folder{};    ///< none: nothing is loaded or saved
  std::int64_t every = 0;  ///< steps; 0: at the end and when asked
  int keep_last = 2;       ///< how many checkpoints stay, by the order of saving; 0: all
  /// What must be the same for a training to go on from a checkpoint, such as model, seed and length of the schedule.
  std::string run{};
};

/// Values that all ranks have alike: rank 0 saves them, and every rank loads them.
struct Replica {
  std::string name;
  View values;  ///< saved as a tensor of one dimension
};

class Checkpointer {
 public:
  /// @throws Error as Saver's constructor
  Checkpointer(Communicator comm, CheckpointerOptions options);
  ~Checkpointer();
  Checkpointer(Checkpointer&&) noexcept;

  /// The newest one, the same on every rank: what has to be known before a training is built. None without a folder, and where there is none yet
  std::optional<Checkpoint> newest();
  /// Calls `load` with the newest one, the same on every rank. @returns after how many steps it was saved; 0 where there is none
  /// @throws Error (usage) for one of another run; as Checkpoint::read()
  std::int64_t resume(const std::function<void(const Checkpoint&)>& load);
  std::int64_t resume(const std::vector<Replica>& all);

  /// Before an optimizer of your own changes what a State named; as Saver::release(). Not collective
  void release() noexcept;

  /// Saves behind the training: every so many steps, when asked, and after the last step. @param steps done so far
  /// @param state is called where it saves. @returns whether to go on. False: a notice to end came; all is on the disk then, as it is after
  /// the last step. @throws Error as Saver::begin() and Saver::finish()
  bool after_step(std::int64_t steps, bool last, const std::function<State()>& state);
  bool after_step(std::int64_t steps, bool last, const std::vector<Replica>& all);
  /// Whether after_step() returned false.
  bool told_to_end() const;

 private:
  class Folder;
  std::unique_ptr<Folder> folder_;  // null: none
};

}  // namespace weft::checkpoint
