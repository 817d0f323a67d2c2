#pragma once
// The text that the example models learn: the bytes of a file, or of all regular files in a folder.
//
// The last tenth of the bytes is held out for evaluation. Which sequences a step trains on is a pure function
// of seed, step and the sequence's number in the global batch, so one rank and eight ranks draw the same
// global batch. A Text does not change after it is made and may be read from any thread; the sequences point
// into it, so it must outlive them.
//
//   Text text = Text::read("/usr/share/common-licenses", model->sequence_bytes());
//   std::vector<Sequence> batch(4);
//   text.training(seed, step, rank * 4, batch);          // rank's share of the global batch
//   double loss = model->forward(batch);
//
// WRONG: text.training(seed, step, 0, batch) on every rank: all ranks learn from the same four sequences.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace weft::examples {

using Sequence = std::span<const std::uint8_t>;
using Batch = std::span<const Sequence>;

class Text {
 public:
  /// @param path a regular file, or a folder: its regular files, sorted by name, without subfolders and links
  /// @param sequence_bytes length of every sequence: the model's context and the byte to predict after it
  /// @throws Error (usage) when there is no such path, or too little text for a sequence in either part
  static Text read(const std::filesystem::path& path, std::int64_t sequence_bytes);

  /// @param name what messages call this text
  Text(std::vector<std::uint8_t> bytes, std::int64_t sequence_bytes, const std::string& name);

  std::int64_t training_bytes() const { return training_bytes_; }
  std::int64_t held_out_bytes() const { return static_cast<std::int64_t>(bytes_.size()) - training_bytes_; }
  std::int64_t sequence_bytes() const { return sequence_bytes_; }

  /// Where sequence `index` of the global batch of `step` starts in the training part.
  std::int64_t training_start(std::uint64_t seed, std::int64_t step, std::int64_t index) const;

  /// Fills `batch` with sequences first, first + 1, ... of the global batch of `step`.
  void training(std::uint64_t seed, std::int64_t step, std::int64_t first, std::span<Sequence> batch) const;

  /// Fills `batch` with sequences first, first + 1, ... of `count` evenly spaced ones of the held-out part.
  void held_out(std::int64_t count, std::int64_t first, std::span<Sequence> batch) const;

 private:
  Sequence sequence(std::int64_t start) const;

  std::vector<std::uint8_t> bytes_;
  std::int64_t sequence_bytes_;
  std::int64_t training_bytes_;
};

}  // namespace weft::examples
