#pragma once
// Saves checkpoints of a job into a folder: safe against kills and full disks, each rank its own part.
//
// A checkpoint is a folder of its own, FOLDER/step-00000040. Each rank that has pieces writes one file in safetensors format;
// rank 0 adds index.json, which says where each tensor's elements are, with a checksum for every MiB. All is written under
// another name, flushed to the disk, and renamed at the end. So a folder named step-N is complete, whatever ends the job, and
// what a killed job left is removed by the next one. All ranks must see FOLDER as the same one; across hosts it lies on a
// shared filesystem.
//
// One thread uses a Saver, and every rank makes one: the constructor and save() are collective and block. While it lives, no
// other job saves into the folder. Extra memory: 1 MiB for pieces that lie on a device, none else; rank 0 holds the index.
//
//   checkpoint::Saver saver(comm, "checkpoints", {.keep_last = 3});
//   ...
//   saver.save(step, pieces, {{"data position", position}});          // between steps
//
// To load, see checkpoint.hpp.
//
// WRONG: pieces of parameters that all ranks have alike from every rank: their elements are saved twice, and save() refuses.
// Divide them, or let rank 0 alone name them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/checkpoint/piece.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::checkpoint {

struct SaverOptions {
  /// How many checkpoints stay: after a save the oldest beyond these are removed. 0 keeps all.
  int keep_last = 0;
};

class Saver {
 public:
  /// Makes the folder where it is missing. On every rank it throws what rank 0 met. @throws Error (usage) where another job saves
  /// there, and for a negative keep_last; (system) where the folder cannot be made or written
  Saver(Communicator comm, std::string folder, SaverOptions options = {});
  ~Saver();
  Saver(Saver&&) noexcept;

  /// All ranks' pieces together are each tensor's elements, each once. @param values those of rank 0 count
  /// @returns the path of the checkpoint, which is on the disk then.
  /// @throws Error on all ranks, naming the rank that failed; the folder then has what it had before. Usage: elements that are
  /// missing or saved twice, a shape that does not match, a value that is not finite, a step that is there already. Mismatch:
  /// ranks that save different steps. System: the disk is full or cannot be written, or ranks see different folders
  std::string save(std::int64_t step, std::span<const Piece> pieces, const Values& values = {});

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::checkpoint
