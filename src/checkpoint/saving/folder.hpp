#pragma once
// The folder that a job saves checkpoints into: names, the lock, and the steps by which a checkpoint appears or goes at once.
//
//   FOLDER/.weft-saver             locked by the job that saves there; says who that is
//   FOLDER/step-00000040           a complete checkpoint
//   FOLDER/step-00000048.part      being written, or being removed; the next job to save here removes what a killed one left
//   FOLDER/step-00000040.replaced  an earlier save of that step, while a new one takes its name; if the job was killed meanwhile,
//                                  the next job to save here renames it back
//
// A rename is what makes it complete, after everything in it is on the disk; and the first step of removing it, before anything in it goes.
// Which one is older is a matter of the numbers that saves have in their indices: clocks jump, copies have times of their own, and a training
// that goes on from an older step saves smaller steps later.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/index.hpp"
#include "core/base/descriptor.hpp"

namespace weft::detail {

inline constexpr const char* index_name = "index.json";

std::string checkpoint_name(std::int64_t step);
/// nullopt for a name that checkpoint_name() does not give.
std::optional<std::int64_t> step_of(const std::string& name);
/// A complete checkpoint in a folder.
struct Saved {
  std::int64_t step = 0;
  /// Gives the order of saves; saves with equal numbers, or without (0), are ordered by step. nullopt if the index cannot be read
  std::optional<std::int64_t> number{};
};
/// All checkpoints in the order of saving. Those without a known place come last, so that a reader of the last one notices the damage. Empty if
/// there is no such folder. @throws Error (usage) if it cannot be read
std::vector<Saved> all_saved(const std::string& folder);
/// @throws Error (system) if the names in it cannot be made durable
void flush_folder(const std::string& folder);

/// What rank 0 does in the folder.
class SaveFolder {
 public:
  /// Creates and locks the folder, and removes what killed jobs left. @throws Error (usage) if another job saves there, or it cannot be written
  explicit SaveFolder(std::string folder);

  /// Makes the folder that ranks write into. @throws Error (system)
  void begin(std::int64_t step);
  /// Gives the save the next number, adds the index and makes it complete. An earlier save of this step is removed then. @throws Error (system)
  void publish(Index index);
  /// Removes it.
  void discard(std::int64_t step) noexcept;
  /// Removes the oldest complete checkpoints beyond the last `count`, never `newest`, and logs which. A checkpoint without a known place
  /// stays and does not count. @throws Error (system)
  void keep_last(int count, std::int64_t newest);

 private:
  std::string path(std::int64_t step) const { return folder_ + '/' + checkpoint_name(step); }
  void clean_up();
  void replace(std::int64_t step);

  std::string folder_;
  Descriptor lock_;
  std::set<std::int64_t> complained_{};  // steps of which it was said that their place is not known
};

/// Where the ranks write before it is complete.
std::string draft_path(const std::string& folder, std::int64_t step);

}  // namespace weft::detail
