#pragma once
// What others ask of a training between its steps: to save a checkpoint, or to save one and end.
//
//   kill -USR1 of any rank       save and end (the preemption notice; mpirun, Slurm and weft-launch forward the signal)
//   touch FOLDER/checkpoint-now  save and go on; the file goes when it was seen
//
// All ranks hear of it in the same step, whichever of them was asked: next() is collective. It costs an all_reduce of 4 bytes,
// and rank 0 a look at the folder. From the first Requests on SIGUSR1 does not end the process; one handler serves all of them.
//
//   checkpoint::Requests requests(comm, "checkpoints");
//   for (...) {
//     train_one_step();
//     const auto asked = requests.next();
//     if (asked != checkpoint::Request::nothing) saver.save(step, pieces, values);
//     if (asked == checkpoint::Request::save_and_end) return 75;          // try again: the next start goes on
//   }
//
// WRONG: next() on the ranks alone that were asked: the others do not take part, and all wait until the timeout.

#include <cstdint>
#include <string>

#include "weft/collectives/communicator.hpp"

namespace weft::checkpoint {

/// The more urgent has the larger number.
enum class Request : std::uint8_t { nothing, save, save_and_end };

class Requests {
 public:
  /// @param folder where the file is looked for. @throws Error (system) where the signal cannot be handled
  Requests(Communicator comm, std::string folder);

  /// Collective; blocks. What any rank was asked since the last call. A notice to end stays.
  Request next();

 private:
  Communicator comm_;
  std::string file_;
};

}  // namespace weft::checkpoint
