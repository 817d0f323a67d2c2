#pragma once
// The folder that a job saves checkpoints into: names, the lock, and the steps by which a checkpoint appears or goes at once.
//
//   FOLDER/.weft-saver             locked by the job that saves there; says who that is
//   FOLDER/step-00000040           a complete checkpoint
//   FOLDER/step-00000048.part      being written, or being removed; the next job to save here removes what a killed one left
//
// A rename is what makes it complete, after everything in it is on the disk; and the first step of removing it, before anything in it goes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/descriptor.hpp"

namespace weft::detail {

inline constexpr const char* index_name = "index.json";

std::string checkpoint_name(std::int64_t step);
/// nullopt for a name that checkpoint_name() does not give.
std::optional<std::int64_t> step_of(const std::string& name);
/// Steps of all complete checkpoints, ascending. None where there is no such folder. @throws Error (usage) where it cannot be read
std::vector<std::int64_t> complete_steps(const std::string& folder);
/// @throws Error (system) where the names in it cannot be made durable
void flush_folder(const std::string& folder);

/// What rank 0 does in the folder.
class SaveFolder {
 public:
  /// Makes it, locks it, and removes what killed jobs left. @throws Error (usage) where another job saves there, or it cannot be written
  explicit SaveFolder(std::string folder);

  /// Makes the folder that ranks write into. @throws Error (usage) where that step is complete already, (system)
  void begin(std::int64_t step);
  /// Adds the index to it and makes it complete. @throws Error (system)
  void publish(std::int64_t step, const std::string& index);
  /// Removes it.
  void discard(std::int64_t step) noexcept;
  /// Removes the oldest complete ones beyond the newest `count`. @throws Error (system)
  void keep_last(int count);

 private:
  std::string path(std::int64_t step) const { return folder_ + '/' + checkpoint_name(step); }

  std::string folder_;
  Descriptor lock_;
};

/// Where the ranks write before it is complete.
std::string draft_path(const std::string& folder, std::int64_t step);

}  // namespace weft::detail
