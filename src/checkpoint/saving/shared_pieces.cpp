#include "checkpoint/saving/shared_pieces.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "checkpoint/checksums.hpp"
#include "core/memory/copy_now.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

using checkpoint::Computed;
using checkpoint::Piece;

namespace {

/// Elements in host memory where they are, if they are there; otherwise nothing.
const ConstView* on_host(const Piece& piece) {
  const ConstView* const values = std::get_if<ConstView>(&piece.values);
  return values != nullptr && values->device().is_host() ? values : nullptr;
}

void copy_elements(const Piece& piece, std::int64_t at, View to) {
  if (const ConstView* const values = std::get_if<ConstView>(&piece.values)) {
    copy_now(to, values->slice(at, to.count()));
  } else {
    std::get<Computed>(piece.values).fill(at, to);
  }
}

std::int64_t block_elements(const Piece& piece) {
  return static_cast<std::int64_t>(checkpoint_block / size_of(piece.dtype()));
}

}  // namespace

ConstView PieceReader::read(std::size_t piece, std::int64_t at, std::int64_t count) {
  const Piece& one = pieces_[piece];
  if (const ConstView* const values = on_host(one)) return values->slice(at, count);
  return staged(one, at, count);
}

ConstView PieceReader::staged(const Piece& piece, std::int64_t at, std::int64_t count) {
  if (staging_.count() == 0)
    staging_ = Buffer::on_host(DataType::u8, static_cast<std::int64_t>(checkpoint_block), Contents::any);
  const View here(staging_.view().data(), count, piece.dtype());
  copy_elements(piece, at, here);
  return here;
}

SharedPieces::SharedPieces(std::vector<Piece> pieces, std::size_t copy_at_most,
                           std::chrono::nanoseconds timeout)
    : PieceReader({}),
      owned_(std::move(pieces)),
      copy_at_most_(copy_at_most),
      timeout_(timeout),
      progress_(owned_.size()) {
  set(owned_);
}

ConstView SharedPieces::read(std::size_t piece, std::int64_t at, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  if (failed_) std::rethrow_exception(failed_);
  Progress& progress = progress_[piece];
  if (progress.is_copied) return progress.rest.view().slice(at - progress.read, count);
  const ConstView here = staged(owned_[piece], at, count);
  progress.read = at + count;
  if (released_ && all_read()) progressed_.notify_all();
  return here;
}

void SharedPieces::release() noexcept {
  std::unique_lock lock(mutex_);
  if (std::exchange(released_, true) || ended_) return;
  try {
    copy_and_wait(lock);
  } catch (...) {
    failed_ = std::current_exception();
  }
}

void SharedPieces::end() noexcept {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (Progress& one : progress_) one.rest = Buffer();
  progressed_.notify_all();
}

// Copies from the last piece backwards. The writer goes forwards, so the pieces that remain to be read from the training's memory are those that it
// reads next.
void SharedPieces::copy_and_wait(std::unique_lock<std::mutex>& lock) {
  std::size_t left = copy_at_most_;
  for (std::size_t piece = owned_.size(); piece-- > 0;) {
    const std::size_t bytes = rest_bytes(piece);
    if (bytes > left) continue;
    left -= bytes;
    copy(piece);
  }
  if (progressed_.wait_for(lock, timeout_, [&] { return ended_ || all_read(); })) return;
  throw Error(ErrorKind::timeout,
              text("a checkpoint is written too slowly: the training waited for ",
                   std::chrono::duration<double>(timeout_).count(), " s to change what is saved"),
              "let SaverOptions::copy_at_most be larger, or save to a faster disk");
}

std::size_t SharedPieces::rest_bytes(std::size_t piece) const {
  const Piece& one = owned_[piece];
  return static_cast<std::size_t>(one.count() - progress_[piece].read) * size_of(one.dtype());
}

void SharedPieces::copy(std::size_t piece) {
  const Piece& one = owned_[piece];
  Progress& progress = progress_[piece];
  const std::int64_t count = one.count() - progress.read;
  if (count > 0) {
    progress.rest = Buffer::on_host(one.dtype(), count, Contents::any);
    const std::int64_t most = block_elements(one);
    for (std::int64_t done = 0; done < count; done += most)
      copy_elements(one, progress.read + done,
                    progress.rest.view().slice(done, std::min(most, count - done)));
  }
  progress.is_copied = true;
}

bool SharedPieces::all_read() const {
  for (std::size_t piece = 0; piece < owned_.size(); ++piece) {
    if (!progress_[piece].is_copied && progress_[piece].read < owned_[piece].count()) return false;
  }
  return true;
}

}  // namespace weft::detail
