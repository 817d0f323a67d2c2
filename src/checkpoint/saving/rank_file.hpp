#pragma once
// One rank's file of a checkpoint, in safetensors format: 8 bytes that say how long the header is, the header in JSON, and the
// elements (https://huggingface.co/docs/safetensors). A piece that is not its whole tensor is called "name[first:end]" there and is flat.
// Types go from wide to narrow, so that every piece is aligned to its elements.

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/index.hpp"
#include "checkpoint/saving/shared_pieces.hpp"

namespace weft::detail {

/// Writes it and flushes it to the disk. @param path of a file that is not there yet; its last part is its name in the index
/// @throws Error (usage) for pieces that do not lie in their shapes, or two of one name; (system) naming the file
Index write_rank_file(const std::string& path, std::int64_t step, PieceReader& from);

/// A tensor in a header of safetensors.
struct HeaderRow {
  std::string name;
  DataType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes;
};
/// The header with its 8 bytes of length, a multiple of 64 long. Tensors follow each other in the order given.
std::string safetensors_header(std::span<const HeaderRow> rows, std::int64_t step);

}  // namespace weft::detail
