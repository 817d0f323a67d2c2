#pragma once
// Reads elements of a stored piece, by the blocks that have them, and compares each block with its checksum before its values are used.
// A block that is wanted whole goes straight to its destination; others, and those for a device, pass through one block of memory.

#include <cstdint>
#include <string>

#include "checkpoint/index.hpp"
#include "core/files/input_file.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {

class StoredBytes {
 public:
  /// One file of the checkpoint in `folder`. @throws Error (system) if it is missing, no regular file, or of another
  /// length
  StoredBytes(const std::string& folder, const StoredFile& file);

  /// Elements [first, first + count) of a tensor, which lie in the stored piece and in the wanted one. @throws Error (system) for bytes that
  /// cannot be read, or are not what was written, naming file, tensor and place
  void read(const StoredPiece& piece, const checkpoint::Wanted& wanted, std::int64_t first,
            std::int64_t count);
  /// Calls `visit(ConstView)` with all of the piece, block by block.
  template <class Visit>
  void each_block(const std::string& tensor, DataType dtype, const StoredPiece& piece, Visit&& visit) {
    const auto step = static_cast<std::int64_t>(block_bytes / size_of(dtype));
    for (std::int64_t at = 0; at < piece.count; at += step)
      visit(ConstView(block(tensor, dtype, piece, at / step)));
  }
  /// Whether the bytes before the tensors are what was written. @param elements bytes of all its pieces
  void check_header(std::uint64_t elements);

 private:
  static const std::size_t block_bytes;
  /// A block of the piece, in memory that the next call takes.
  View block(const std::string& tensor, DataType dtype, const StoredPiece& piece, std::int64_t number);
  void fill(View to, const std::string& tensor, const StoredPiece& piece, std::int64_t number);
  void read_all(std::byte* to, std::size_t bytes, std::uint64_t at) const;

  std::string path_;
  StoredFile file_;
  InputFile input_;
  Buffer memory_;
};

}  // namespace weft::detail
