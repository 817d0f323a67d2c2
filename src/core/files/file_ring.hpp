#pragma once
// Parts of a file in a few places of memory: the ring reads parts ahead in the order in which they were
// wanted, hands out one at a time, and writes it back while the program works on the next.
//
//   FileRing ring(std::move(file), std::move(memory), 4, timeout);
//   for (const FileRing::Span& span : spans) ring.want(span);
//   for (const FileRing::Span& span : spans) {
//     update(ring.take());          // waits for this part, while the next ones are read
//     ring.put_back(true);          // is written during the next updates
//   }
//
// Any thread may call want(); one thread at a time calls the rest, and takes parts in the order wanted. A
// part that overlaps one in memory is read after that one was written. Memory is that of the places, however
// large the file. A part that is written whole needs no read: take_unread(span), and put_back(true).
//
// WRONG: waiting between take() and put_back() for a thread that needs another part.

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "core/files/scratch_file.hpp"
#include "core/files/uring.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

class FileRing {
 public:
  /// A part of the file, in whole blocks.
  struct Span {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };

  /// @param memory is divided among the places, in whole blocks; up to a block is lost to alignment
  /// @param timeout of a single read or write
  /// @throws Error as Uring's constructor
  FileRing(ScratchFile file, Buffer memory, std::size_t places, std::chrono::nanoseconds timeout);
  FileRing(const FileRing&) = delete;
  FileRing& operator=(const FileRing&) = delete;
  /// Waits for the reads and writes in flight, each at most as long as the timeout.
  ~FileRing();

  /// Announces that `span` will be taken. @throws Error (usage) outside the file, or larger than a place
  void want(Span span);
  /// Begins to read wanted parts now, as far as places are free, instead of at the next take() or put_back().
  /// @throws Error as take()
  void read_ahead();
  /// The earliest part that was wanted and not taken; blocks until it is in memory.
  /// @throws Error (system) when a read or an earlier write failed, naming the offset in the file; (timeout);
  /// (usage) when no part is wanted, or the last one was not put back
  std::span<std::byte> take();
  /// Memory for a part that will be written whole: what it holds is not what the file has. Blocks until a place is
  /// free, and a write that overlaps is done. @throws Error (usage) as want(), and while parts are wanted that were not
  /// taken; (system, timeout) as take()
  std::span<std::byte> take_unread(Span span);
  /// Returns the part that was taken. @param changed whether to write it. @throws Error (system) as take()
  void put_back(bool changed);
  /// Blocks until all writes are done. @throws Error (system, timeout) as take()
  void settle();

  const ScratchFile& file() const { return file_; }

 private:
  enum class State { free, reading, there, taken, writing };
  struct Place {
    std::span<std::byte> memory{};
    State state = State::free;
    Span span{};
    std::size_t done = 0;  // bytes that the read or write has done
  };

  void check(Span span) const;
  bool begin_next();
  bool overlaps_a_place(Span span) const;
  void start(Place& place);
  void submit_rest(Place& place);
  void complete(Uring::Outcome outcome);
  void reap();
  template <class Condition>
  void wait_until(Condition holds);
  std::string described(const Place& place) const;
  [[noreturn]] void throw_timeout() const;

  ScratchFile file_;
  Buffer memory_;
  std::chrono::nanoseconds timeout_;
  Uring uring_;
  std::vector<Place> places_;
  std::deque<Place*> reads_;  // being read or waiting to be taken, in the order wanted
  Place* taken_ = nullptr;
  int in_flight_ = 0;        // operations that the kernel has
  std::mutex mutex_;         // guards wanted_
  std::deque<Span> wanted_;  // reads that have not begun
};

}  // namespace weft::detail
