#pragma once
// The memory in which the ranks of one node meet, and the protocol of meeting in it.
//
// Every rank owns a `Line` (whether it is still there, what it is about to do), staging space for data that
// peers cannot reach, and a `Channel` to every other rank for messages.
//
// A collective takes the card slot of its number on every rank. A rank posts what it is about to do and how
// far it is with it, and a "meeting" is a store of the own progress and a look at the others': whoever sees
// the progress may rely on the card. What fits travels in the card itself or beside it, so that one meeting
// is all a small operation needs. Several operations can be under way at once, each in its slot; a slot is
// free again when every rank has said that it is through with all operations up to the one that had it. Cards
// carry that word along, so it costs nothing where ranks keep talking.

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/algorithms/engagement.hpp"
#include "collectives/algorithms/shared_layout.hpp"
#include "collectives/patience.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/node_heap.hpp"

namespace weft::detail {

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

/// A lock that is nearly always free and held shortly: taking it costs one exchange.
class Turn {
 public:
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void lock() {
    for (Backoff backoff; !try_lock();) backoff.pause();
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

class SharedGround {
 public:
  static constexpr std::size_t staging_bytes = 128 << 10;  ///< of a slot, each for what goes in and out
  static constexpr std::size_t small_bytes = 1 << 10;      ///< of a slot, for an operation of one meeting
  static std::size_t bytes_for(int size);

  /// @param memory bytes_for(size) bytes, zeroed, that all ranks see
  /// @param cores that the ranks have between them: with fewer than ranks, who waits gives its core away
  SharedGround(int rank, int size, std::shared_ptr<SharedMapping> memory, std::chrono::nanoseconds timeout,
               int cores);
  virtual ~SharedGround();
  SharedGround(const SharedGround&) = delete;
  SharedGround& operator=(const SharedGround&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// What messages call a rank: its number among more ranks than share this memory.
  int name_of(int rank) const { return names_.empty() ? rank : names_[static_cast<std::size_t>(rank)]; }
  void call_ranks(std::vector<int> names) { names_ = std::move(names); }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  Line& line(int rank) const { return lines_[rank]; }
  Channel& channel(int from, int to) const;
  std::byte* staging_in(int rank, std::uint64_t number) const;
  std::byte* staging_out(int rank, std::uint64_t number) const;
  /// Where a rank puts up to small_bytes of an operation for the others.
  std::byte* small(int rank, std::uint64_t number, std::size_t bytes) const {
    if (bytes <= Card::room) return card(rank, number).data;
    return small_ + (static_cast<std::size_t>(rank) * Line::slots + number % Line::slots) * small_bytes;
  }

  /// What to tell peers about `bytes` bytes of this rank's memory.
  virtual Address publish(const void* memory, std::size_t bytes) const = 0;
  /// A peer's (or this rank's) reachable memory in this process.
  virtual std::byte* resolve(int rank, Address address) const = 0;
  virtual Buffer allocate(DataType dtype, std::int64_t count) = 0;

  /// Of the operation with this number.
  Card& card(int rank, std::uint64_t number) const { return line(rank).cards[number % Line::slots]; }
  /// Whether this rank and all others are through with the operation that had the slot of `number` before.
  bool slot_is_free(std::uint64_t number);
  /// Whether this rank itself is.
  bool is_through(std::uint64_t number) const { return number <= completed_; }
  bool is_through(int rank, std::uint64_t number) const {
    return line(rank).completed.load(std::memory_order_acquire) >= number;
  }
  /// Up to where this rank is through with everything; for its cards.
  std::uint64_t completed() const { return completed_; }
  /// What a peer's card said about that.
  void heard(int rank, std::uint64_t completed) {
    auto& known = known_completed_[static_cast<std::size_t>(rank)];
    known = std::max(known, completed);
  }
  void complete(std::uint64_t number);

  /// For whoever has the right to carry work on.
  Scratch& scratch() { return scratch_; }

  /// Has `work` carried on by every carry_on() until it is over or dismissed; the caller keeps it alive so
  /// long.
  void engage(Engagement& work);
  void dismiss(Engagement& work) noexcept;
  /// Leaves it to the thread that is at it already, if one is.
  void carry_on();
  /// Sleeps until another rank rings, unless `work` is over, at most so long.
  void rest(Engagement& work, std::chrono::microseconds at_most);
  /// Wakes the ranks that sleep: after telling the others anything that they may wait for.
  void ring() const {
    for (int other = 0; other < size_; ++other) {
      if (line(other).bell.asleep.load(std::memory_order_relaxed) != 0 && other != rank_) wake(other);
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
  /// The right to carry work on, which one thread has at a time, if nobody has it.
  std::unique_lock<Turn> try_alone() { return {turn_, std::try_to_lock}; }

  /// "rank 1 (process 77) died", when a rank that is still needed can never come.
  std::optional<std::string> lost(int rank) const;
  /// @throws Error (peer_lost) when somebody who is not `here` is lost
  void expect_present(const std::function<bool(int rank)>& here) const;
  /// The ranks that are not `here`, with where they are; for messages.
  std::string missing(const std::function<bool(int rank)>& here) const;
  void give_up(const std::string& reason) noexcept;

 protected:
  /// Why the process of a rank cannot answer any more, where that can be known.
  virtual std::optional<std::string> died(int /*rank*/) const { return std::nullopt; }

 private:
  void wake(int rank) const;

  int rank_;
  int size_;
  std::shared_ptr<SharedMapping> memory_;
  Line* lines_;
  std::byte* small_;
  std::byte* staging_;
  std::chrono::nanoseconds timeout_;
  bool crowded_;
  std::vector<int> names_;
  Turn turn_;  // guards all below
  std::vector<Engagement*> engaged_;
  std::uint64_t completed_ = 0;
  std::uint64_t completed_beyond_ = 0;          // bit i: operation completed_ + 1 + i
  std::vector<std::uint64_t> known_completed_;  // by rank, what was heard
  Scratch scratch_;
};

/// Begins at once, in the caller's thread, and looks for the others about as long as it would take to queue
/// it. Null: it is complete.
std::unique_ptr<Engagement> begin_shared_collective(SharedGround& ground, const Operation& operation);
std::unique_ptr<Engagement> make_shared_collective(SharedGround& ground, const Operation& operation);
/// The way it would take among `size` ranks, in words.
std::string explain_shared(const Operation& operation, int size);
std::unique_ptr<Engagement> make_shared_transfers(SharedGround& ground, std::vector<Transfer> transfers);

}  // namespace weft::detail
