#include "checkpoint/stored_bytes.hpp"

#include <algorithm>

#include "checkpoint/checksums.hpp"
#include "core/memory/copy_now.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

namespace {

constexpr const char* other_copy = "load an older checkpoint, or restore the file from a copy";

/// Elements that begin at `at` of the wanted piece.
void hand_over(const checkpoint::Wanted& wanted, std::int64_t at, ConstView from) {
  if (const auto* const taken = std::get_if<checkpoint::Taken>(&wanted.values)) return taken->take(at, from);
  copy_now(std::get<View>(wanted.values).slice(at, from.count()), from);
}

}  // namespace

const std::size_t StoredBytes::block_bytes = checkpoint_block;

StoredBytes::StoredBytes(const std::string& folder, const StoredFile& file)
    : path_(folder + '/' + file.name), file_(file), input_(path_) {
  if (!input_.is_open())
    throw Error(ErrorKind::system, text("cannot read ", path_, ": ", input_.problem()), other_copy);
  if (input_.bytes() != file_.bytes)
    throw Error(ErrorKind::system,
                text(path_, " has ", input_.bytes(), " bytes; ", file_.bytes, " were written"), other_copy);
}

void StoredBytes::read(const StoredPiece& piece, const checkpoint::Wanted& wanted, std::int64_t first,
                       std::int64_t count) {
  const View* const memory = std::get_if<View>(&wanted.values);
  const bool on_host = memory != nullptr && memory->device().is_host();
  const auto step = static_cast<std::int64_t>(block_bytes / size_of(wanted.dtype()));
  std::int64_t at = first - piece.first;
  for (const std::int64_t end = at + count; at < end;) {
    const std::int64_t number = at / step;
    const std::int64_t begins = number * step;
    const std::int64_t ends = std::min(begins + step, piece.count);
    const std::int64_t some = std::min(ends, end) - at;
    const std::int64_t place = piece.first + at - wanted.first;
    if (on_host && at == begins && at + some == ends) {
      fill(memory->slice(place, some), wanted.tensor, piece, number);
    } else {
      hand_over(wanted, place,
                ConstView(block(wanted.tensor, wanted.dtype(), piece, number)).slice(at - begins, some));
    }
    at += some;
  }
}

View StoredBytes::block(const std::string& tensor, DataType dtype, const StoredPiece& piece,
                        std::int64_t number) {
  const auto step = static_cast<std::int64_t>(block_bytes / size_of(dtype));
  if (memory_.count() == 0)
    memory_ = Buffer::on_host(DataType::u8, static_cast<std::int64_t>(block_bytes), Contents::any);
  const View here(memory_.view().data(), std::min(step, piece.count - number * step), dtype);
  fill(here, tensor, piece, number);
  return here;
}

void StoredBytes::fill(View to, const std::string& tensor, const StoredPiece& piece, std::int64_t number) {
  const std::uint64_t at = piece.at + static_cast<std::uint64_t>(number) * block_bytes;
  read_all(to.bytes(), to.size_bytes(), at);
  if (checksum({to.bytes(), to.size_bytes()}) == piece.blocks[static_cast<std::size_t>(number)]) return;
  throw Error(ErrorKind::system,
              text(path_, ": bytes [", at, ", ", at + to.size_bytes(), ") of tensor ", tensor,
                   " are not what was written: the file is damaged"),
              other_copy);
}

void StoredBytes::check_header(std::uint64_t elements) {
  std::string header(file_.bytes - std::min(elements, file_.bytes), '\0');
  read_all(reinterpret_cast<std::byte*>(header.data()), header.size(), 0);
  if (checksum(header) == file_.header) return;
  throw Error(ErrorKind::system, text(path_, ": its header is not what was written: the file is damaged"),
              other_copy);
}

void StoredBytes::read_all(std::byte* to, std::size_t bytes, std::uint64_t at) const {
  try {
    if (input_.read_at(at, reinterpret_cast<char*>(to), bytes) == bytes) return;
  } catch (const Error& error) {
    throw Error(ErrorKind::system, text(path_, ": ", error.problem()), other_copy);
  }
  throw Error(ErrorKind::system, text(path_, " became shorter while it was read"), other_copy);
}

}  // namespace weft::detail
