#pragma once
// Saves checkpoints of a job into a folder: safe against kills and full disks, each rank its own part.
//
// A checkpoint is a folder of its own, FOLDER/step-00000040. Each rank that has pieces writes one file in safetensors format;
// rank 0 adds index.json, which says where each tensor's elements are, with a checksum for every MiB. All is written under
// another name, flushed to the disk, and renamed at the end. So a folder named step-N is complete, whatever ends the job, and
// what a killed job left is removed by the next one. Saves are numbered in their folder: the order of saving, and not of steps, says which is
// the newest and which go. So a training that goes on from an older step keeps what it saves and loses what it left behind; a step that is
// there already is replaced, when the new one is complete. What is removed is logged. All ranks must see FOLDER as the same one; across hosts it lies on a
// shared filesystem.
//
// One thread at a time uses a Saver (an Error otherwise), and every rank makes one: all calls but release() and is_saving() are collective. While it lives, no
// other job saves into the folder. save() blocks until all is on the disk; extra memory: 1 MiB for pieces that lie on a device, none else.
//
//   checkpoint::Saver saver(comm, "checkpoints", {.keep_last = 3});
//   ...
//   saver.save(step, pieces, {{"data position", position}});          // between steps
//
// begin() saves behind the training. A thread writes the pieces from where they lie, while forward and backward do not change them. When the
// optimizer is about to, what is not written yet is copied, and the thread goes on from the copy. ZeRO's optimizer waits for that by
// itself; another one calls release() first. The thread's failure is logged at once, and thrown by the next begin(), save() or finish().
//
//   saver.begin(step, adam.state(compute));
//   ...                                                                // train on; the next begin() waits for this one
//   saver.finish();                                                    // before the job ends
//
// To load, see checkpoint.hpp.
//
// WRONG: pieces of parameters that all ranks have alike from every rank: their elements are saved twice, and save() refuses.
// Divide them, or let rank 0 alone name them.
// WRONG: saver.begin(step, {pieces}); my_optimizer.step();               // call saver.release() between them

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "weft/checkpoint/piece.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::checkpoint {

struct SaverOptions {
  /// How many checkpoints stay: after a save those beyond the ones that were saved last are removed, whatever their steps. 0 keeps all.
  int keep_last = 0;
  /// Bytes that a save behind the training may copy; beyond them release() waits for the disk. The default copies all that is not written.
  std::size_t copy_at_most = std::numeric_limits<std::size_t>::max();
  /// How long a save behind the training waits for another rank's disk, and the training for its own. nullopt: as Communicator::timeout()
  std::optional<std::chrono::nanoseconds> timeout{};
};

class Saver {
 public:
  /// Makes the folder where it is missing. On every rank it throws what rank 0 met. @throws Error (usage) where another job saves
  /// there, and for a negative keep_last; (system) where the folder cannot be made or written
  Saver(Communicator comm, std::string folder, SaverOptions options = {});
  /// Waits for a save that was begun, as finish() does, but only logs what went wrong. Where the disk does not answer in time, it leaves the
  /// thread behind with copies of what it still writes.
  ~Saver();
  Saver(Saver&&) noexcept;

  /// All ranks' pieces together are each tensor's elements, each once. @param values those of rank 0 count
  /// @returns the path of the checkpoint, which is on the disk then.
  /// @throws Error on all ranks, naming the rank that failed; the folder then has what it had before. Usage: elements that are
  /// missing or saved twice, a shape that does not match, a value that is not finite. Mismatch: ranks that save different
  /// steps. System: the disk is full or cannot be written, or ranks see different folders
  std::string save(std::int64_t step, std::span<const Piece> pieces, const Values& values = {});

  /// Begins a save behind the training, and returns. Before that it waits for the one before. The first call makes a communicator of its own,
  /// by Communicator::split(). @param state its memory stays valid until the save has read it, and unchanged until then or release()
  /// @throws Error of the save before, as save(); then this one is not begun. (usage) where MPI was initialised for one thread
  void begin(std::int64_t step, checkpoint::State state);
  /// Gives the pieces' memory back: copies what is not written yet. What goes wrong is thrown by finish(). Not collective
  void release() noexcept;
  /// Whether a save goes on behind the training, as far as this rank knows. Ranks may differ. Not collective
  bool is_saving() const;
  /// Blocks until the save that was begun is on the disk. @returns its path; empty, where none was begun since the last finish()
  /// @throws Error as save(), the same on every rank; (timeout) where this rank's disk does not answer
  std::string finish();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace weft::checkpoint
