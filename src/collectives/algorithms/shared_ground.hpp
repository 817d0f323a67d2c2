#pragma once
// The memory in which the ranks of one node meet, and the protocol of meeting in it.
//
// Every rank owns a `Line` (whether it is still there, what it is about to do), staging space for data that
// peers cannot reach, and a `Channel` to every other rank for messages.
//
// A collective takes the card slot of its number on every rank. A rank posts what it is about to do and how
// far it is with it in one cache line, and a "meeting" is a store of the own progress and a look at the
// others': whoever sees the progress may rely on the card. Several operations can be under way at once, each
// in its slot; a slot is free again when the operation that had it is complete and everybody has said that it
// reads its cards no more.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/backend.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::detail {

/// Where a rank's memory is, in words that its peers can resolve.
struct Address {
  bool reachable = false;  ///< false: private to its process, data must be staged
  std::uint64_t token = 0;
};

/// How far an operation is: its number, and the meetings it has reached. Grows in every slot.
constexpr std::uint64_t progress_of(std::uint64_t operation, std::uint64_t meetings) {
  constexpr int bits = 24;  // staging cuts an operation into at most millions of chunks
  return operation << bits | meetings;
}

/// What a rank is about to do; compared by all.
struct alignas(128) Card {
  std::atomic<std::uint64_t> progress{0};
  std::uint64_t number = 0;
  std::int64_t count = 0;
  Collective kind = Collective::barrier;
  DataType dtype = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  Address in;
  Address out;

  Operation operation() const {
    return {.kind = kind, .number = number, .count = count, .dtype = dtype, .op = op, .root = root};
  }
};

enum class Presence : std::uint32_t { expected, here, left, failed };

/// What a rank has issued for its device. Written by that rank, read by others at any time: the number is
/// taken away first and set last.
struct Posted {
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::int64_t> count{0};
  std::atomic<std::uint64_t> what{0};  ///< kind, dtype, op and root
};

struct alignas(128) Line {
  static constexpr std::size_t slots = 32;

  std::atomic<std::uint64_t> operation{0};  ///< number of the latest collective it has come to
  std::atomic<Presence> presence{Presence::expected};
  char reason[160] = {};  ///< why it failed; written before `presence` says so
  Card cards[slots];
  std::atomic<std::uint64_t> device_operation{0};  ///< number of the latest that it has issued
  Posted posted[slots];
};

/// One parcel of a message: the whole of it where the receiver can reach the sender's memory, else what fits
/// a slot.
struct Parcel {
  std::int64_t message_count = 0;
  DataType dtype = DataType::u8;
  Address address;
  std::uint64_t bytes = 0;
};

struct alignas(128) Channel {
  static constexpr std::size_t slots = 2;
  static constexpr std::size_t slot_bytes = 32 << 10;

  std::atomic<std::uint64_t> posted{0};              ///< by the sender
  alignas(128) std::atomic<std::uint64_t> taken{0};  ///< by the receiver
  Parcel parcels[slots];
  alignas(128) std::byte data[slots][slot_bytes];
};

/// Work of one rank with its neighbours that is under way.
class Engagement {
 public:
  virtual ~Engagement() = default;

  bool over() const { return over_.load(std::memory_order_acquire); }
  /// @throws what ended it, if something did. Only when it is over
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  void carry_on() noexcept;

 private:
  /// One attempt, without blocking. True: complete.
  virtual bool advance() = 0;

  std::exception_ptr error_;
  std::atomic<bool> over_{false};
};

class SharedGround {
 public:
  static constexpr std::size_t staging_bytes = 128 << 10;  ///< of a slot, each for what goes in and out
  static std::size_t bytes_for(int size);

  /// @param memory bytes_for(size) bytes, zeroed, that all ranks see
  SharedGround(int rank, int size, std::shared_ptr<SharedMapping> memory, std::chrono::nanoseconds timeout);
  virtual ~SharedGround();
  SharedGround(const SharedGround&) = delete;
  SharedGround& operator=(const SharedGround&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  Line& line(int rank) const;
  Channel& channel(int from, int to) const;
  std::byte* staging_in(int rank, std::uint64_t number) const;
  std::byte* staging_out(int rank, std::uint64_t number) const;

  /// What to tell peers about `bytes` bytes of this rank's memory.
  virtual Address publish(const void* memory, std::size_t bytes) const = 0;
  /// A peer's (or this rank's) reachable memory in this process.
  virtual std::byte* resolve(int rank, Address address) const = 0;
  virtual Buffer allocate(DataType dtype, std::int64_t count) = 0;

  /// Of the operation with this number.
  Card& card(int rank, std::uint64_t number) const { return line(rank).cards[number % Line::slots]; }
  bool everybody_at(std::uint64_t number, std::uint64_t progress) const;
  /// Whether the operation that had the slot of `number` before is complete on this rank, and everybody has
  /// read this rank's card of it.
  bool slot_is_free(std::uint64_t number) const;
  /// What free_slot() was told of this operation, if it was the latest in its slot.
  std::optional<std::uint64_t> completed(std::uint64_t number) const;
  /// @param progress what every rank reaches once it reads the operation's cards no more
  void free_slot(std::uint64_t number, std::uint64_t progress) {
    completed_[number % Line::slots] = {number, progress};
  }

  /// Has `work` carried on by every carry_on() until it is over or dismissed; the caller keeps it alive so
  /// long.
  void engage(Engagement& work);
  void dismiss(Engagement& work) noexcept;
  /// Leaves it to the thread that is at it already, if one is.
  void carry_on();

  /// "rank 1 (process 77) died", when a rank that is still needed can never come.
  std::optional<std::string> lost(int rank) const;
  /// The ranks that have not come as far, with where they are; for messages.
  std::string missing_at(std::uint64_t number, std::uint64_t progress) const;
  void give_up(const std::string& reason) noexcept;

 protected:
  /// Why the process of a rank cannot answer any more, where that can be known.
  virtual std::optional<std::string> died(int /*rank*/) const { return std::nullopt; }

 private:
  int rank_;
  int size_;
  std::shared_ptr<SharedMapping> memory_;
  std::chrono::nanoseconds timeout_;
  std::mutex engaged_mutex_;
  std::vector<Engagement*> engaged_;
  struct Completed {
    std::uint64_t number = 0;
    std::uint64_t progress = 0;
  };
  std::array<Completed, Line::slots> completed_{};  // by slot: the latest
};

/// Decides when waiting has become an error: a lost peer at the next look (about every 5 ms), anybody at the
/// deadline.
class Patience {
 public:
  explicit Patience(std::chrono::nanoseconds timeout) : deadline_(Deadline::in(timeout)) {}
  /// True when it is time to look whether everybody waited for is alive. Cheap enough for every poll.
  bool time_to_look();
  bool exhausted() const { return deadline_.passed(); }
  double waited_seconds() const { return deadline_.waited_seconds(); }

 private:
  Deadline deadline_;
  Deadline::Clock::time_point next_look_ = Deadline::Clock::now() + std::chrono::milliseconds(5);
  int polls_ = 0;
};

std::unique_ptr<Engagement> make_shared_collective(SharedGround& ground, const Operation& operation);
std::unique_ptr<Engagement> make_shared_transfers(SharedGround& ground, std::vector<Transfer> transfers);

}  // namespace weft::detail
