// Steps of a read: pieces that are wanted are cut into the ranges in which they are stored, the ranges are sorted by file, and each file is
// opened once. Files are read from front to back.

#include "weft/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include "checkpoint/checkpoint_state.hpp"
#include "checkpoint/saving/folder.hpp"
#include "checkpoint/stored_bytes.hpp"
#include "core/base/strings.hpp"
#include "core/files/input_file.hpp"
#include "weft/core/error.hpp"

namespace weft::checkpoint {

using namespace detail;

namespace {

/// Elements of one stored piece that are wanted.
struct Range {
  const StoredPiece* piece;
  const Wanted* wanted;
  std::int64_t first;  ///< of the tensor
  std::int64_t count;
};

const StoredTensor& tensor_for(const Wanted& wanted, const Index& index, const std::string& path) {
  const auto found = index.tensors.find(wanted.tensor);
  const char* const advice = "build the model that was saved";
  if (found == index.tensors.end()) {
    std::vector<std::string> names;
    names.reserve(index.tensors.size());
    for (const auto& [name, tensor] : index.tensors) names.push_back(name);
    const auto near = nearest_name(names, wanted.tensor);
    throw Error(ErrorKind::mismatch, text(path, " has no tensor ", wanted.tensor),
                near ? text("it has ", *near) : std::string(advice));
  }
  const StoredTensor& tensor = found->second;
  if (tensor.dtype != wanted.dtype() || tensor.shape != wanted.shape)
    throw Error(ErrorKind::mismatch,
                text("tensor ", wanted.tensor, " is ", type_and_shape(tensor.dtype, tensor.shape), " in ",
                     path, " and ", type_and_shape(wanted.dtype(), wanted.shape), " here"),
                advice);
  if (wanted.first < 0 || wanted.first > tensor.count() - wanted.count())
    throw Error(ErrorKind::usage, text("elements [", wanted.first, ", ", wanted.first + wanted.count(),
                                       ") of tensor ", wanted.tensor, ", which has ", tensor.count()));
  return tensor;
}

void add_ranges(const Wanted& wanted, const StoredTensor& tensor, std::vector<Range>& ranges) {
  const std::int64_t end = wanted.first + wanted.count();
  auto piece = std::ranges::upper_bound(tensor.pieces, wanted.first, {},
                                        [](const StoredPiece& one) { return one.first + one.count; });
  for (; piece != tensor.pieces.end() && piece->first < end; ++piece) {
    const std::int64_t from = std::max(piece->first, wanted.first);
    const std::int64_t to = std::min(piece->first + piece->count, end);
    if (from < to) ranges.push_back({&*piece, &wanted, from, to - from});
  }
}

std::uint64_t bytes_of_elements(const Index& index, std::size_t file) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : index.tensors) {
    for (const StoredPiece& piece : tensor.pieces)
      if (piece.file == file) bytes += static_cast<std::uint64_t>(piece.count) * size_of(tensor.dtype);
  }
  return bytes;
}

}  // namespace

Checkpoint::Checkpoint(std::string path) {
  auto state = std::make_shared<State>();
  constexpr std::size_t most = std::size_t{4} << 30;
  const std::string index = path + '/' + index_name;
  try {
    state->index = parse_index(read_input(index, index, {.most = most}), index);
    check_complete(state->index);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::system, text(index, ": no memory for what it says"),
                "load it where more memory is left");
  }
  state->path = std::move(path);
  state_ = std::move(state);
}

std::vector<std::string> Checkpoint::all(const std::string& folder) {
  std::vector<std::string> paths;
  for (const Saved& one : all_saved(folder)) paths.push_back(path_of(folder, one.step));
  return paths;
}

std::string Checkpoint::path_of(const std::string& folder, std::int64_t step) {
  return folder + '/' + checkpoint_name(step);
}

std::optional<Checkpoint> Checkpoint::newest(const std::string& folder) {
  const auto paths = all(folder);
  if (paths.empty()) return std::nullopt;
  return Checkpoint(paths.back());
}

const std::string& Checkpoint::path() const {
  return state_->path;
}

std::int64_t Checkpoint::step() const {
  return state_->index.step;
}

std::uint64_t Checkpoint::bytes() const {
  const auto& files = state_->index.files;
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const StoredFile& file) { return sum + file.bytes; });
}

const Values& Checkpoint::values() const {
  return state_->index.values;
}

const Value& Checkpoint::value(const std::string& name) const {
  const auto found = values().find(name);
  if (found != values().end()) return found->second;
  throw Error(ErrorKind::usage, text(path(), " has no value \"", name, '"'));
}

std::map<std::string, TensorInfo> Checkpoint::tensors() const {
  std::map<std::string, TensorInfo> all;
  for (const auto& [name, tensor] : state_->index.tensors)
    all.emplace(name, TensorInfo{tensor.dtype, tensor.shape, static_cast<int>(tensor.pieces.size())});
  return all;
}

void Checkpoint::read(std::span<const Wanted> pieces) const {
  const Index& index = state_->index;
  std::vector<Range> ranges;
  for (const Wanted& wanted : pieces) add_ranges(wanted, tensor_for(wanted, index, path()), ranges);
  std::ranges::sort(ranges, {},
                    [](const Range& one) { return std::tuple(one.piece->file, one.piece->at, one.first); });
  for (auto from = ranges.begin(); from != ranges.end();) {
    const std::size_t number = from->piece->file;
    const auto to =
        std::find_if(from, ranges.end(), [&](const Range& one) { return one.piece->file != number; });
    StoredBytes file(path(), index.files[number]);
    for (; from != to; ++from) file.read(*from->piece, *from->wanted, from->first, from->count);
  }
}

std::vector<std::string> Checkpoint::verify() const {
  std::vector<std::string> damaged;
  const auto note = [&](auto&& check) {
    try {
      check();
    } catch (const Error& error) {
      damaged.push_back(error.problem());
    }
  };
  const Index& index = state_->index;
  for (std::size_t i = 0; i < index.files.size(); ++i) {
    note([&] {
      StoredBytes file(path(), index.files[i]);
      note([&] { file.check_header(bytes_of_elements(index, i)); });
      for (const auto& one : index.tensors) {
        const auto& name = one.first;  // clang 14 captures no structured binding
        const auto& tensor = one.second;
        for (const StoredPiece& piece : tensor.pieces)
          if (piece.file == i) note([&] { file.each_block(name, tensor.dtype, piece, [](ConstView) {}); });
      }
    });
  }
  return damaged;
}

}  // namespace weft::checkpoint
