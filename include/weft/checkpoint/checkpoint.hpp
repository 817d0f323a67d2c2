#pragma once
// Reads a checkpoint that a Saver wrote, in whole or in part, with any number of ranks.
//
// Each rank reads what it wants by itself; nothing here is collective. Every byte that is read is compared with its checksum
// first, so that a damaged file is an Error and never a wrong value. Memory beside the destination: 1 MiB, and the index.
//
//   if (const auto found = checkpoint::Checkpoint::newest("checkpoints")) {
//     found->read(wanted);                                  // this rank's pieces, whichever rank saved them
//     step = found->step() + 1;
//     position = std::get<std::int64_t>(found->value("data position"));
//   }
//
// Python reads the files with the safetensors package. Name the tensors of a model in parts by the model, not by the part.
//
// WRONG: each rank calling newest() while a job saves: ranks may find different ones. Let rank 0 find it and broadcast its step.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/checkpoint/piece.hpp"

namespace weft::checkpoint {

/// A tensor of a checkpoint.
struct TensorInfo {
  DataType dtype = DataType::f32;
  std::vector<std::int64_t> shape;
  int pieces = 0;  ///< in how many ranges its elements are stored
};

/// What two checkpoints have apart.
struct Difference {
  std::string name;  ///< of a tensor or value
  std::string what;  ///< "only in the first", "f32[4, 8] and bf16[4, 8]", "3 of 32 elements, by 0.5 at most"
  std::int64_t elements = 0;  ///< how many of a tensor in both differ in any bit
};

class Checkpoint {
 public:
  /// @param path of one checkpoint, FOLDER/step-00000040. @throws Error (usage) where there is none, or its index is damaged
  explicit Checkpoint(std::string path);

  /// The paths of all complete checkpoints in a folder, in the order in which they were saved; none where there is no such folder. Those of
  /// a weft that did not number its saves come first, by their steps; those whose index cannot be read come last.
  static std::vector<std::string> all(const std::string& folder);
  /// The path that the checkpoint of a step has in a folder, whether it is there or not.
  static std::string path_of(const std::string& folder, std::int64_t step);
  /// The one that was saved last, which need not have the largest step: a training that went on from an older one goes on from what it saved
  /// since. None in an empty or missing folder. @throws as the constructor, also where the index of another one cannot be read
  static std::optional<Checkpoint> newest(const std::string& folder);

  const std::string& path() const;
  std::int64_t step() const;
  /// Bytes of its files, without the index.
  std::uint64_t bytes() const;
  const Values& values() const;
  /// @throws Error (usage) for a name that is not there
  const Value& value(const std::string& name) const;
  std::map<std::string, TensorInfo> tensors() const;

  /// Fills all pieces. @throws Error (mismatch) naming the first tensor that is missing or has another type or shape; (usage) for elements
  /// outside of it; (system) for a file that is missing, cut off or damaged, naming file and tensor
  void read(std::span<const Wanted> pieces) const;
  /// Compares every byte of every file with its checksum. @returns a line for each thing that is damaged; none: it is whole
  std::vector<std::string> verify() const;
  /// Writes all tensors whole into one file in safetensors format, under another name until it is complete. @throws as read(), and Error
  /// (usage, system) where `file` cannot be written
  void export_whole(const std::string& file) const;
  /// In the order of names, values first; steps are not compared. Reads both whole, by ranges. @throws as read()
  std::vector<Difference> differences(const Checkpoint& other) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace weft::checkpoint
