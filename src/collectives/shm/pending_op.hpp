#pragma once
// An operation that has begun and is not complete. Any thread that waits for another one progresses it too.

#include <atomic>
#include <exception>

#include "weft/core/recycled.hpp"

namespace weft::detail {

/// One rank's part of it.
class PendingOp : public Recycled {
 public:
  PendingOp() = default;
  /// Only before it is added to a segment.
  PendingOp(PendingOp&&) noexcept {}
  PendingOp& operator=(PendingOp&&) = delete;
  virtual ~PendingOp() = default;

  bool over() const { return over_.load(std::memory_order_acquire); }
  /// Only when it is over. @throws the error that ended it, if there is one
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  void progress() noexcept;
  /// Time has passed without an attempt: an operation that counts attempts should look at the clock. Called,
  /// like advance(), by the thread that holds the segment's lock.
  virtual void rested() {}

 private:
  /// One attempt, without blocking. True: complete.
  virtual bool advance() = 0;

  std::exception_ptr error_;
  std::atomic<bool> over_{false};
};

}  // namespace weft::detail
