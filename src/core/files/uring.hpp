#pragma once
// Asynchronous reads and writes of files, through io_uring. In a build without it (WEFT_URING) the
// constructor throws.
//
// One thread at a time uses a Uring. The memory of an operation, and the thread that submitted it, must live
// until its outcome is known: the kernel cancels the operations of a thread that ends.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace weft::detail {

class Uring {
 public:
  struct Outcome {
    std::uint64_t tag;
    int result;  ///< bytes, which may be fewer than asked for, or an errno below 0
  };

  /// @param operations at most this many in flight
  /// @throws Error (usage) in a build without io_uring, (system) when the kernel has none or forbids it
  explicit Uring(unsigned operations);
  ~Uring();
  Uring(Uring&&) noexcept;

  void read(int file, std::span<std::byte> to, std::uint64_t offset, std::uint64_t tag);
  void write(int file, std::span<const std::byte> from, std::uint64_t offset, std::uint64_t tag);
  /// The outcome of the next operation that ended; null when none has.
  std::optional<Outcome> poll();
  /// As poll(), but waits; null when no operation ends in time.
  std::optional<Outcome> wait(std::chrono::nanoseconds at_most);

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace weft::detail
