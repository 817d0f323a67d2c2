#pragma once
// The memory in which the ranks of one node meet, and the protocol of meeting in it.
//
// Every rank owns a `Line` (how many meetings it has reached, whether it is still there, what it is about to
// do), staging space for data that peers cannot reach, and a `Channel` to every other rank for messages. A
// meeting ("sync") is one store of the own counter and a look at the others'; all ranks take part in the same
// meetings. Whoever posts a Card before a meeting may rely on everybody reading it after.
//
// Cards alternate between two slots: a rank posts the card of operation n+2 only after it met everybody in
// n+1, and nobody comes to n+1 before it is done reading the cards of n.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "collectives/backend.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::detail {

/// Where a rank's memory is, in words that its peers can resolve.
struct Address {
  bool reachable = false;  ///< false: private to its process, data must be staged
  std::uint64_t token = 0;
};

/// What a rank is about to do; compared by all.
struct Card {
  std::uint64_t number = 0;
  std::int64_t count = 0;
  Collective kind = Collective::barrier;
  DataType dtype = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  Address in;
  Address out;
};

enum class Presence : std::uint32_t { expected, here, left, failed };

struct alignas(128) Line {
  std::atomic<std::uint64_t> meetings{0};
  std::atomic<std::uint64_t> operation{0};  ///< number of the collective it is in or was in last
  std::atomic<Presence> presence{Presence::expected};
  char reason[160] = {};  ///< why it failed; written before `presence` says so
  alignas(128) Card cards[2];
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

class SharedGround {
 public:
  static constexpr std::size_t staging_bytes = 512 << 10;
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
  std::byte* staging_in(int rank) const;
  std::byte* staging_out(int rank) const;

  /// What to tell peers about `bytes` bytes of this rank's memory.
  virtual Address publish(const void* memory, std::size_t bytes) const = 0;
  /// A peer's (or this rank's) reachable memory in this process.
  virtual std::byte* resolve(int rank, Address address) const = 0;
  virtual Buffer allocate(DataType dtype, std::int64_t count) = 0;

  /// Posts this rank's arrival at the next meeting and returns the meeting's number.
  std::uint64_t arrive();
  bool everybody_at(std::uint64_t meeting) const;
  /// "rank 1 (process 77) died", when a rank that is still needed can never come.
  std::optional<std::string> lost(int rank) const;
  /// The ranks not yet at a meeting, with where they are; for messages.
  std::string missing_at(std::uint64_t meeting) const;
  void give_up(const std::string& reason) noexcept;

 protected:
  /// Why the process of a rank cannot answer any more, where that can be known.
  virtual std::optional<std::string> died(int /*rank*/) const { return std::nullopt; }

 private:
  int rank_;
  int size_;
  std::shared_ptr<SharedMapping> memory_;
  std::chrono::nanoseconds timeout_;
  std::uint64_t meetings_ = 0;
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

std::unique_ptr<Task> make_shared_collective(std::shared_ptr<SharedGround> ground,
                                             const Operation& operation);
std::unique_ptr<Task> make_shared_transfers(std::shared_ptr<SharedGround> ground,
                                            std::vector<Transfer> transfers);

}  // namespace weft::detail
