#include "checkpoint/saving/rank_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <filesystem>
#include <set>

#include "checkpoint/checksums.hpp"
#include "core/base/descriptor.hpp"
#include "core/files/output_file.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

namespace json = boost::json;
using checkpoint::Piece;

namespace {

constexpr const char* metadata = "__metadata__";

void check(const Piece& piece) {
  std::int64_t all = 0;
  if (piece.tensor.empty() || piece.tensor == metadata)
    throw Error(ErrorKind::usage, text("a tensor is called \"", piece.tensor, "\""), "give it another name");
  if (!count_of(piece.shape, all))
    throw Error(ErrorKind::usage,
                text("tensor ", piece.tensor, " has a negative size, or too many elements"));
  if (piece.first < 0 || piece.first > all || piece.count() > all - piece.first)
    throw Error(ErrorKind::usage, text("a piece of tensor ", piece.tensor, " is elements [", piece.first,
                                       ", ", piece.first + piece.count(), ") of ", all));
}

std::uint64_t bytes_of(const Piece& piece) {
  return static_cast<std::uint64_t>(piece.count()) * size_of(piece.dtype());
}

HeaderRow row_of(const Piece& piece) {
  HeaderRow row{piece.tensor, piece.dtype(), piece.shape, bytes_of(piece)};
  if (piece.count() != elements_of(piece.shape)) {
    row.name += text('[', piece.first, ':', piece.first + piece.count(), ']');
    row.shape = {piece.count()};
  }
  return row;
}

std::string_view as_text(ConstView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size_bytes()};
}

/// Writes pieces block by block, and computes the checksum of each block on its way.
class PieceWriter {
 public:
  PieceWriter(int file, const std::string& called, PieceReader& from)
      : file_(file), called_(called), from_(from) {}

  std::vector<std::uint64_t> write(std::size_t number) {
    const Piece& piece = from_.pieces()[number];
    const auto step = static_cast<std::int64_t>(checkpoint_block / size_of(piece.dtype()));
    std::vector<std::uint64_t> blocks;
    for (std::int64_t at = 0; at < piece.count(); at += step) {
      const std::string_view bytes = as_text(from_.read(number, at, std::min(step, piece.count() - at)));
      blocks.push_back(checksum(bytes));
      write_all(file_, bytes, called_);
      begin_to_flush(bytes.size());
    }
    return blocks;
  }

 private:
  // The disk writes while the next blocks are hashed and copied. A hint: where it fails, fsync() does all of it.
  void begin_to_flush(std::size_t written) {
    constexpr std::size_t at_once = 8 * checkpoint_block;
    unflushed_ += written;
    if (unflushed_ < at_once) return;
    const off_t end = lseek(file_, 0, SEEK_CUR);
    (void)sync_file_range(file_, end - static_cast<off_t>(unflushed_), static_cast<off_t>(unflushed_),
                          SYNC_FILE_RANGE_WRITE);
    unflushed_ = 0;
  }

  int file_;
  const std::string& called_;
  PieceReader& from_;
  std::size_t unflushed_ = 0;
};

}  // namespace

std::string safetensors_header(std::span<const HeaderRow> rows, std::int64_t step) {
  constexpr std::size_t length_bytes = 8;
  constexpr std::size_t multiple = 64;
  json::object header;
  header[metadata] = {{"format", "weft checkpoint 1"}, {"step", text(step)}};
  std::uint64_t at = 0;
  for (const HeaderRow& row : rows) {
    header[row.name] = {{"dtype", type_word(row.dtype)},
                        {"shape", json::value_from(row.shape)},
                        {"data_offsets", {at, at + row.bytes}}};
    at += row.bytes;
  }
  std::string all = std::string(length_bytes, '\0') + json::serialize(header);
  all.resize((all.size() + multiple - 1) / multiple * multiple, ' ');
  std::uint64_t length = all.size() - length_bytes;
  for (std::size_t i = 0; i < length_bytes; ++i, length >>= 8U) all[i] = static_cast<char>(length & 0xffU);
  return all;
}

Index write_rank_file(const std::string& path, std::int64_t step, PieceReader& from) {
  const std::span<const Piece> pieces = from.pieces();
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    check(pieces[i]);
    // A rank without elements of a tensor adds nothing; a tensor without elements is there all the same.
    if (pieces[i].count() > 0 || elements_of(pieces[i].shape) == 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return size_of(pieces[i].dtype()); });
  std::vector<HeaderRow> rows;
  std::set<std::string> names;
  for (const std::size_t i : order) {
    rows.push_back(row_of(pieces[i]));
    if (!names.insert(rows.back().name).second)
      throw Error(ErrorKind::usage, text(rows.back().name, " is saved twice"), "name each piece once");
  }

  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) throw system_error(text("cannot write ", path));
  const std::string header = safetensors_header(rows, step);
  write_all(file.get(), header, path);
  Index index;
  std::uint64_t at = header.size();
  PieceWriter writer(file.get(), path, from);
  for (const std::size_t i : order) {
    const Piece& piece = pieces[i];
    StoredTensor& tensor = index.tensors[piece.tensor];
    if (!tensor.pieces.empty() && (tensor.dtype != piece.dtype() || tensor.shape != piece.shape))
      throw Error(ErrorKind::usage, text("tensor ", piece.tensor, " has two shapes or types on one rank"));
    tensor.dtype = piece.dtype();
    tensor.shape = piece.shape;
    tensor.pieces.push_back({0, piece.first, piece.count(), at, writer.write(i)});
    at += bytes_of(piece);
  }
  if (!is_flushed(file.get())) throw system_error(text("cannot write ", path));
  index.step = step;
  index.files = {{std::filesystem::path(path).filename().string(), at, checksum(header)}};
  return index;
}

}  // namespace weft::detail
