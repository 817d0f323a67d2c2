#pragma once
// The shared memory of the ranks of one node, and the protocol of its barrier phases.
//
// Every rank owns a `RankBlock` (whether it is still there, what it is about to do), staging space for data
// that peers cannot reach, and a `Channel` to every other rank for messages.
//
// A collective takes the OpSlot of its number on every rank. A rank writes into its slot what it is about to
// do, and then how far it is. A barrier phase is a store of the own progress and a read of the others': a
// rank that sees the progress may read the slot. Small data travels in the slot or beside it, so a small
// operation needs one phase. Up to 32 operations are under way at once, each in its slot. A slot is free
// again when every rank has said that it has completed all operations up to the one that had it; slots carry
// that number along, so it costs no extra traffic where ranks keep communicating.

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/diagnosis/poll_deadline.hpp"
#include "collectives/shm/pending_op.hpp"
#include "collectives/shm/shm_layout.hpp"
#include "collectives/shm/shm_messages.hpp"
#include "core/base/spin_lock.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/shared_memory.hpp"

namespace weft::detail {

/// Numbers from `first` up to and without `end`.
struct Ranks {
  int first;
  int end;
};

/// Room for the addresses of one exchange, so that no operation allocates.
struct Scratch {
  std::vector<const std::byte*> sources{};
  std::vector<std::byte*> cached{};
  std::vector<std::byte*> streamed{};

  /// For so many ranks; a rank's own and its staging space are two destinations.
  void reserve(std::size_t ranks) {
    sources.reserve(ranks);
    cached.reserve(ranks + 1);
    streamed.reserve(ranks);
  }
  void clear() {
    sources.clear();
    cached.clear();
    streamed.clear();
  }
};

class ShmSegment {
 public:
  static constexpr std::size_t staging_bytes = 128 << 10;  ///< of a slot, each for what goes in and out
  static constexpr std::size_t small_bytes = 1 << 10;      ///< of a slot, for an operation of one phase
  static constexpr std::uint64_t never =
      std::numeric_limits<std::uint64_t>::max();  ///< the number of no operation
  static std::size_t bytes_for(int size);
  /// Writes whose memory it is: of so many ranks of this job (a random number).
  static void mark(const SharedMapping& memory, int size, std::uint64_t job);
  /// @throws Error (mismatch) where another has written something else
  static void expect(const SharedMapping& memory, int size, std::uint64_t job);

  /// @param memory bytes_for(size) bytes, zeroed, that all ranks see
  /// @param cores that the ranks have between them: with fewer than ranks, a thread that waits yields its
  /// core
  ShmSegment(int rank, int size, std::shared_ptr<SharedMapping> memory, std::chrono::nanoseconds timeout,
             int cores);
  virtual ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// What messages call a rank: its number among more ranks than share this memory.
  int name_of(int rank) const { return names_.empty() ? rank : names_[static_cast<std::size_t>(rank)]; }
  void call_ranks(std::vector<int> names) { names_ = std::move(names); }
  /// Whether operations are steps of a larger communicator's, which says in which one this rank is.
  bool carries_out_steps() const { return !names_.empty(); }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  /// What an operation has of its own, else the segment's.
  std::chrono::nanoseconds timeout_or(std::chrono::nanoseconds own) const {
    return own.count() > 0 ? own : timeout_;
  }
  RankBlock& block(int rank) const { return blocks_[rank]; }
  Channel& channel(int from, int to) const;
  std::byte* staging_in(int rank, std::uint64_t number) const;
  std::byte* staging_out(int rank, std::uint64_t number) const;
  /// Where a rank puts up to small_bytes of an operation for the others.
  std::byte* small(int rank, std::uint64_t number, std::size_t bytes) const {
    if (bytes <= OpSlot::room) return op_slot(rank, number).data;
    return small_ +
           (static_cast<std::size_t>(rank) * RankBlock::slots + number % RankBlock::slots) * small_bytes;
  }

  /// What to tell peers about `bytes` bytes of this rank's memory.
  virtual Address publish(const void* memory, std::size_t bytes) const = 0;
  /// A peer's (or this rank's) reachable memory in this process. @throws Error (mismatch) where not so many
  /// bytes are
  virtual std::byte* resolve(int rank, Address address, std::size_t bytes) const = 0;
  virtual Buffer allocate(DataType dtype, std::int64_t count, Contents contents) = 0;

  /// The slot of the operation with this number.
  OpSlot& op_slot(int rank, std::uint64_t number) const {
    return block(rank).op_slots[number % RankBlock::slots];
  }
  /// Whether this rank and all others are through with the operation that had the slot of `number` before.
  bool slot_is_free(std::uint64_t number);
  /// Whether this rank itself is.
  bool is_through(std::uint64_t number) const { return number <= completed_; }
  bool is_through(int rank, std::uint64_t number) const {
    return block(rank).completed.load(std::memory_order_acquire) >= number;
  }
  /// The number up to which this rank has completed every operation; for its slots.
  std::uint64_t completed() const { return completed_; }
  /// What a peer's slot said about that.
  void heard(int rank, std::uint64_t completed) {
    auto& known = known_completed_[static_cast<std::size_t>(rank)];
    known = std::max(known, completed);
  }
  void complete(std::uint64_t number);

  /// For the thread that holds the lock, but for its address.
  ShmMessages& messages() { return messages_; }
  /// For the thread that holds the lock.
  Scratch& scratch() { return scratch_; }

  /// Every progress() progresses `work` until it is over or removed; the caller keeps it alive so long.
  void add_pending(PendingOp& work);
  void remove_pending(PendingOp& work) noexcept;
  /// One attempt at every pending operation. Does nothing where another thread is at it already.
  void progress();
  /// Sleeps until another rank rings, unless `work` is over, at most so long.
  void rest(PendingOp& work, std::chrono::microseconds at_most);
  /// Wakes the ranks that sleep: after telling the others anything that they may wait for.
  void ring() const {
    for (int other = 0; other < size_; ++other) {
      if (block(other).doorbell.asleep.load(std::memory_order_relaxed) != 0 && other != rank_) wake(other);
    }
  }
  /// Between two looks at a peer.
  void give_way() const {
    if (crowded_) {
      std::this_thread::yield();
    } else {
      Backoff::relax();
    }
  }
  bool crowded() const { return crowded_; }
  /// The right to progress pending operations, if no other thread has it.
  std::unique_lock<SpinLock> try_lock() { return {lock_, std::try_to_lock}; }

  /// Waits until every rank has made its segment over this memory. @throws Error (timeout, peer_lost) naming one that has not
  void await_ranks(Deadline deadline) const;
  /// "rank 1 (process 77) died", when a rank that is still needed can never come.
  std::optional<Error> lost(int rank) const;
  /// @throws Error (peer_lost) when a rank that is not `here` is lost
  void expect_present(const std::function<bool(int rank)>& here) const;
  /// After memory of other ranks was read, or before it is written, in the operation with this number: who gave up before
  /// it was through may have freed that memory. @throws Error (peer_lost)
  void expect_memory_of(Ranks ranks, std::uint64_t number) const {
#if !defined(__SANITIZE_THREAD__)                         // which knows no fences
    std::atomic_thread_fence(std::memory_order_acquire);  // what was read is older than what follows
#endif
    if (departures_.ranks.load(std::memory_order_acquire) != 0) expect_present_or_through(number, ranks);
  }
  /// The ranks that are not `here`, with where they are and whether they are stopped; for messages.
  std::string missing(const std::function<bool(int rank)>& here) const;
  void give_up(const Error& error) noexcept;
  /// "process 77 is stopped": it lives and does nothing, where a slow one goes on. Empty where that is not so, or not known.
  virtual std::string stopped(int /*rank*/) const {
    return {};
  }

 protected:
  /// Why the process of a rank cannot answer any more, where that can be known.
  virtual std::optional<std::string> died(int /*rank*/) const {
    return std::nullopt;
  }

 private:
  void wake(int rank) const;
  /// Whether this rank has told nothing of its end, and this process is no child that was forked since.
  bool takes_part() const;
  void depart(Presence how) noexcept;
  void expect_present_or_through(std::uint64_t number, Ranks ranks) const;

  int rank_;
  int size_;
  std::shared_ptr<SharedMapping> memory_;
  Departures& departures_;
  RankBlock* blocks_;
  std::byte* small_;
  std::byte* staging_;
  std::chrono::nanoseconds timeout_;
  bool crowded_;
  std::uint64_t generation_;  // of the process that is this rank
  std::vector<int> names_;
  SpinLock lock_;  // guards all below
  std::vector<PendingOp*> pending_;
  std::uint64_t completed_ = 0;
  std::uint64_t completed_beyond_ = 0;          // bit i: operation completed_ + 1 + i
  std::vector<std::uint64_t> known_completed_;  // by rank, what was heard
  Scratch scratch_;
  ShmMessages messages_{size_};
};

/// Begins at once, in the caller's thread, and looks for the others about as long as queueing would take.
/// Null: it is complete.
std::unique_ptr<PendingOp> begin_shm_collective(ShmSegment& segment, const Operation& operation);
std::unique_ptr<PendingOp> make_shm_collective(ShmSegment& segment, const Operation& operation);
/// The way it would take among `size` ranks, in words.
std::string explain_shm(const Operation& operation, int size);
std::unique_ptr<PendingOp> make_shm_transfers(ShmSegment& segment, Transfers transfers);

}  // namespace weft::detail
