#pragma once
// What lies in the shared memory of a node's ranks. Zeroed memory is a valid state of all of it.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/backend/backend.hpp"

namespace weft::detail {

/// The first bytes: whose memory this is. Written by the rank that makes it, before another has it.
struct alignas(128) SegmentHead {
  static constexpr std::uint64_t right_magic = 0x746665772d6d6873;  // "shm-weft"

  std::uint64_t magic = 0;
  std::uint64_t job = 0;     ///< random
  std::uint64_t layout = 0;  ///< what all that follows takes for one rank
  std::int64_t ranks = 0;
};

/// Ranks that have left or failed. Read at every exchange and nearly never written: on a line of its own that costs nothing.
struct alignas(128) Departures {
  std::atomic<std::uint32_t> ranks{0};
};

/// Where a rank's memory is, in words that its peers can resolve.
struct Address {
  bool reachable = false;  ///< false: private to its process, data must be staged
  std::uint64_t token = 0;
};

/// How far an operation is: its number, and the barrier phases it has reached. Grows in every slot.
inline constexpr int phase_bits = 24;  // staging cuts an operation into at most millions of chunks
constexpr std::uint64_t phase_of(std::uint64_t operation, std::uint64_t phases) {
  return operation << phase_bits | phases;
}
constexpr std::uint64_t number_in(std::uint64_t reached) {
  return reached >> phase_bits;
}

/// What a rank is about to do; compared by all. An operation of a few elements needs only its first cache
/// line.
struct alignas(128) OpSlot {
  static constexpr std::size_t room = 64;

  std::atomic<std::uint64_t> reached{0};
  std::uint64_t completed = 0;  ///< this rank is through with every operation up to this one
  std::int64_t count = 0;
  Collective kind = Collective::barrier;
  DataType dtype = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::byte data[room] = {};
  Address in;
  Address out;

  Operation operation() const {
    return {.kind = kind,
            .number = number_in(reached.load(std::memory_order_relaxed)),
            .count = count,
            .dtype = dtype,
            .op = op,
            .root = root};
  }
  /// For slots of the same number, in the same phase.
  bool agrees_with(const OpSlot& other) const {
    return count == other.count && kind == other.kind && dtype == other.dtype && op == other.op &&
           root == other.root;
  }
};
static_assert(sizeof(OpSlot) == 128);

enum class Presence : std::uint32_t { expected, here, left, failed };

/// What a rank has issued for its device. Written by that rank, read by others at any time: the number is
/// taken away first and set last.
struct Posted {
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::int64_t> count{0};
  std::atomic<std::uint64_t> what{0};  ///< kind, dtype, op and root
};

/// Wakes a rank that sleeps. Nearly never written, so that asking whether a peer sleeps costs nothing.
struct alignas(128) Doorbell {
  std::atomic<std::uint32_t> asleep{0};  ///< threads of that rank
  std::atomic<std::uint32_t> rung{0};    ///< what they sleep on
};

struct alignas(128) RankBlock {
  static constexpr std::size_t slots = 32;

  std::atomic<std::uint64_t> operation{0};  ///< number of the latest collective it has come to
  std::atomic<std::uint64_t> completed{0};  ///< it is through with every collective up to this one
  std::atomic<Presence> presence{Presence::expected};
  ErrorKind failure =
      ErrorKind::internal;  ///< of which kind it failed, and why; written before `presence` says so
  char reason[476] = {};
  OpSlot op_slots[slots];
  std::atomic<std::uint64_t> device_operation{0};  ///< number of the latest that it has issued
  Posted posted[slots];
  std::atomic<std::uint64_t> shown{0};  ///< what it wants to be seen
  Doorbell doorbell;
};

/// One parcel of a message: the whole of it where the receiver can reach the sender's memory, else what fits
/// a slot.
struct Parcel {
  std::int64_t message_count = 0;
  DataType dtype = DataType::u8;
  std::uint32_t tag = 0;
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

}  // namespace weft::detail
