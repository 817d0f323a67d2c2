#pragma once
// The index of a checkpoint, index.json: a plain value. It says where the elements of each tensor are, and the checksums of all bytes.
//
//   {"checksum":"0123456789abcdef","index":{"format":"weft checkpoint 1","save":"7 0123456789abcdef","step":40,"values":{...},
//    "files":[{"name":"rank-00000.safetensors","bytes":8192,"header":"..."}],
//    "tensors":{"w":{"dtype":"F32","shape":[4,8],"pieces":[{"file":0,"first":0,"count":32,"at":128,"blocks":"..."}]}}}}
//
// "save" is the number of the save in its folder, from 1 on, with its own checksum, so that the order of saves is known without reading whole
// indices. Checkpoints of earlier versions have none. Values are whole numbers, texts, and doubles as {"double":"0.1"}. The checksum is of the bytes of "index"'s value. `at` is the place in the file, in bytes; `blocks` are the checksums of the piece's MiBs.
// The same text, for one file alone, is how a rank tells rank 0 what it wrote.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/checkpoint/piece.hpp"

namespace weft::detail {

/// The product of a shape; 1 for {}. False where a size is negative or there are more than 2^59.
bool count_of(const std::vector<std::int64_t>& shape, std::int64_t& count);
/// The product of a shape that count_of() takes.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);

struct StoredPiece {
  std::size_t file = 0;  ///< in Index::files
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::uint64_t at = 0;
  std::vector<std::uint64_t> blocks;
  bool operator==(const StoredPiece&) const = default;
};

struct StoredTensor {
  DataType dtype = DataType::f32;
  std::vector<std::int64_t> shape;
  std::vector<StoredPiece> pieces;  ///< by `first`
  std::int64_t count() const { return elements_of(shape); }
  bool operator==(const StoredTensor&) const = default;
};

struct StoredFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t header = 0;  ///< checksum of all before the tensors
  bool operator==(const StoredFile&) const = default;
};

struct Index {
  std::int64_t step = 0;
  std::int64_t save = 0;  ///< its number in the order of saving; 0: none
  checkpoint::Values values;
  std::vector<StoredFile> files;
  std::map<std::string, StoredTensor> tensors;
  bool operator==(const Index&) const = default;
};

std::string text_of(const Index& index);
/// @param called what errors call it. @throws Error (usage) that names the place in it. What it returns is safe to read by: pieces lie in
/// their files and in their tensors, and each has the checksums that its length asks for
Index parse_index(std::string_view content, const std::string& called);

/// The number of the save, from the first bytes of an index; 0 if it has no number; nullopt if they are damaged or are not an index
constexpr std::size_t save_number_bytes = 160;
std::optional<std::int64_t> save_number_in(std::string_view start);
/// The largest; no folder sees as many saves.
constexpr std::int64_t most_saves = std::int64_t{1} << 53;

/// Adds what a rank wrote, a text of text_of(). @throws Error (usage) for a tensor of another shape or type than before, naming both ranks' files
void add_part(Index& whole, const Index& part);
/// @throws Error (usage) unless each tensor's pieces are its elements, each once; sorts them
void check_complete(Index& index);

/// F32, BF16: the words of safetensors.
const char* type_word(DataType dtype);
/// False for a word of no type of weft.
bool type_of_word(std::string_view word, DataType& dtype);

}  // namespace weft::detail
