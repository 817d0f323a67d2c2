#pragma once
// Elements for a writer, block by block, also while their owner trains on.
//
// Behind the training the writer copies a block of 1 MiB under a lock, and hashes and writes the copy. An owner that is about to change its
// memory calls release(): this copies what the writer has not read yet, and the writer continues from the copies. A writer that is
// faster than the training costs no memory but the block. A slower one costs memory for what it has not read, and the time of that copy.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <vector>

#include "weft/checkpoint/piece.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {

/// Pieces that do not change. Data on a device, or without an address, passes through 1 MiB of staging.
class PieceReader {
 public:
  explicit PieceReader(std::span<const checkpoint::Piece> pieces) : pieces_(pieces) {}
  virtual ~PieceReader() = default;
  PieceReader(const PieceReader&) = delete;
  PieceReader& operator=(const PieceReader&) = delete;

  std::span<const checkpoint::Piece> pieces() const { return pieces_; }
  /// Elements [at, at + count) of a piece, 1 MiB at most, in host memory until the next call. Each piece is read once, in ascending order.
  virtual ConstView read(std::size_t piece, std::int64_t at, std::int64_t count);

 protected:
  ConstView staged(const checkpoint::Piece& piece, std::int64_t at, std::int64_t count);
  void set(std::span<const checkpoint::Piece> pieces) { pieces_ = pieces; }

 private:
  std::span<const checkpoint::Piece> pieces_;
  Buffer staging_;
};

/// Pieces whose owner takes them back. One thread reads, another releases.
class SharedPieces final : public PieceReader {
 public:
  /// @param copy_at_most bytes that release() copies; for the rest it waits until the writer has read them, or `timeout` has passed
  SharedPieces(std::vector<checkpoint::Piece> pieces, std::size_t copy_at_most,
               std::chrono::nanoseconds timeout);

  /// @throws what kept release() from copying or waiting
  ConstView read(std::size_t piece, std::int64_t at, std::int64_t count) override;
  /// When it returns, the pieces' memory is not read any more. What goes wrong is the reader's to throw.
  void release() noexcept;
  /// Nothing is read any more.
  void end() noexcept;

 private:
  struct Progress {
    std::int64_t read = 0;
    Buffer rest{};  ///< once released, the elements from `read` on
    bool is_copied = false;
  };
  std::size_t rest_bytes(std::size_t piece) const;
  void copy(std::size_t piece);
  bool all_read() const;
  void copy_and_wait(std::unique_lock<std::mutex>& lock);

  const std::vector<checkpoint::Piece> owned_;
  const std::size_t copy_at_most_;
  const std::chrono::nanoseconds timeout_;
  std::mutex mutex_;
  std::condition_variable progressed_;
  std::vector<Progress> progress_;  // by piece
  bool released_ = false;
  bool ended_ = false;
  std::exception_ptr failed_{};
};

}  // namespace weft::detail
