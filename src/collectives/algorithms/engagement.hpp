#pragma once
// Work that goes on whenever anybody waits for anything beside it.

#include <atomic>
#include <exception>

#include "weft/core/recycled.hpp"

namespace weft::detail {

/// Work of one rank with its neighbours that is under way.
class Engagement : public Recycled {
 public:
  Engagement() = default;
  /// Only before it is engaged.
  Engagement(Engagement&&) noexcept {}
  Engagement& operator=(Engagement&&) = delete;
  virtual ~Engagement() = default;

  bool over() const { return over_.load(std::memory_order_acquire); }
  /// @throws what ended it, if something did. Only when it is over
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  void carry_on() noexcept;
  /// Time has passed without an attempt: whoever counts attempts should look at the clock. Like an attempt,
  /// for who has the right to carry work on.
  virtual void rested() {}

 private:
  /// One attempt, without blocking. True: complete.
  virtual bool advance() = 0;

  std::exception_ptr error_;
  std::atomic<bool> over_{false};
};

}  // namespace weft::detail
