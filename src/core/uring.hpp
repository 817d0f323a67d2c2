#pragma once
// Reads and writes of files that go on beside the caller, through io_uring; in a build without it
// (WEFT_URING) nothing but an error that says so.
//
// One thread at a time uses it. Memory stays until the outcome is known, and so does the thread that began
// the operation: the kernel cancels what a thread leaves behind.

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

  /// @param operations under way at a time
  /// @throws Error (usage) in a build without it, (system) where the kernel has none or forbids it
  explicit Uring(unsigned operations);
  ~Uring();
  Uring(Uring&&) noexcept;

  void read(int file, std::span<std::byte> to, std::uint64_t offset, std::uint64_t tag);
  void write(int file, std::span<const std::byte> from, std::uint64_t offset, std::uint64_t tag);
  /// Of an operation that has ended, in the order they end; none: none has.
  std::optional<Outcome> poll();
  /// The same; none: not within this time.
  std::optional<Outcome> wait(std::chrono::nanoseconds at_most);

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace weft::detail
