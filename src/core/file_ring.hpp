#pragma once
// Parts of a file that pass through a few places in memory: they come in the order in which they are wanted,
// are used one at a time, and go back, while the next ones come and the last ones go.
//
//   FileRing ring(std::move(file), std::move(memory), 4, patience);
//   for (const FileRing::Span& span : spans) ring.want(span);
//   for (const FileRing::Span& span : spans) {
//     update(ring.take());          // waits for this one; the next ones are being read
//     ring.put_back(true);          // is written behind the next updates
//   }
//
// Any thread may want; one thread at a time does the rest, and what is wanted is taken in that order. A part
// that overlaps one in memory is not read before that was written. Memory never holds more than the places.
//
// WRONG: waiting for anything between take() and put_back() that needs another part.

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "core/scratch_file.hpp"
#include "core/uring.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

class FileRing {
 public:
  /// Whole blocks of a file.
  struct Span {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };

  /// @param memory is divided among the places, in whole blocks; one block is lost to where the first begins
  /// @param patience for a single read or write
  /// @throws Error as Uring
  FileRing(ScratchFile file, Buffer memory, std::size_t places, std::chrono::nanoseconds patience);
  FileRing(const FileRing&) = delete;
  FileRing& operator=(const FileRing&) = delete;
  /// Waits for what is under way, as long as patience has it.
  ~FileRing();

  /// It will be taken. @throws Error (usage) for what is no part of the file, or larger than a place
  void want(Span span);
  /// Reads of what is wanted begin now, as far as places are free, and not at the next take() or put_back().
  /// @throws Error as take()
  void read_ahead();
  /// The earliest that was wanted and not taken; blocks until it is there.
  /// @throws Error (system) where a read or an earlier write failed, naming the place in the file; (timeout);
  /// (usage) where none is wanted, or one is taken
  std::span<std::byte> take();
  /// What was taken. @param changed it is written, else forgotten. @throws Error (system) as take()
  void put_back(bool changed);
  /// Blocks until everything is written. @throws Error (system, timeout) as take()
  void settle();

  const ScratchFile& file() const { return file_; }

 private:
  enum class State { free, reading, there, taken, writing };
  struct Place {
    std::span<std::byte> memory{};
    State state = State::free;
    Span span{};
    std::size_t done = 0;  // bytes of a read or write
  };

  bool begin_next();
  bool overlaps_a_place(Span span) const;
  void start(Place& place);
  void go_on(Place& place);
  void conclude(Uring::Outcome outcome);
  void conclude_what_is_over();
  template <class Condition>
  void wait_until(Condition holds);
  std::string told(const Place& place) const;
  [[noreturn]] void give_up() const;

  ScratchFile file_;
  Buffer memory_;
  std::chrono::nanoseconds patience_;
  Uring uring_;
  std::vector<Place> places_;
  std::deque<Place*> coming_;  // in the order wanted
  Place* taken_ = nullptr;
  int under_way_ = 0;
  std::mutex mutex_;         // of what follows
  std::deque<Span> wanted_;  // and not begun
};

}  // namespace weft::detail
