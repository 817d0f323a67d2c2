#pragma once
// The newest operations of a communicator on this rank: the flight record's main part.
//
// One thread issues; the threads of streams say how far operations are; any thread may read. An entry is a
// cache line of atomics, so that recording costs a few stores and reading never stops the writers: an entry
// that is overwritten meanwhile is left out.

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "weft/collectives/flight_recorder.hpp"
#include "weft/core/recycled.hpp"

namespace weft::detail {

class OperationLog final : public FlightNote {
 public:
  enum class Sequence : std::uint8_t { host, device, group };
  enum class State : std::uint8_t { issued, begun, done, failed };

  /// By kind of operation; the last place is that of send/receive groups.
  static constexpr std::size_t kinds = static_cast<std::size_t>(Collective::barrier) + 2;
  struct Totals {
    std::array<std::uint64_t, kinds> operations{};
    std::array<std::uint64_t, kinds> bytes{};  ///< sent to other ranks, by the operations' own count
    Totals& operator+=(const Totals& more);
  };
  /// How far the operations of one sequence are.
  struct Progress {
    std::uint64_t issued = 0;  ///< the number of the newest one
    std::uint64_t under_way = 0;
    std::int64_t oldest_since = 0;  ///< steady clock, nanoseconds; 0: none is under way
  };

  /// @param ranks of the world, by rank of the communicator
  OperationLog(std::string name, std::vector<int> ranks, int rank);

  /// @param bytes that it sends to other ranks @returns its place, for what follows
  std::uint64_t issued(Sequence sequence, const Operation& operation, std::uint64_t bytes = 0) {
    count(sequence, operation, bytes);
    const std::uint64_t place = ++last_;
    Slot& slot = slots_[place % slots_.size()];
    slot.place.store(0, std::memory_order_release);
    slot.number.store(operation.number, std::memory_order_release);
    slot.count.store(operation.count, std::memory_order_release);
    slot.what.store(packed(sequence, operation), std::memory_order_release);
    slot.state.store(State::issued, std::memory_order_release);
    slot.issued.store(0, std::memory_order_release);
    slot.begun.store(0, std::memory_order_release);
    slot.ended.store(0, std::memory_order_release);
    slot.place.store(place, std::memory_order_release);
    return place;
  }
  /// Only operations that do not end within their call are worth a look at the clock.
  void waits(std::uint64_t place) { mark(place, &Slot::issued, State::issued); }
  void begun(std::uint64_t place) { mark(place, &Slot::begun, State::begun); }
  void ended(std::uint64_t place, State state) { mark(place, &Slot::ended, state); }
  void done_at_once(std::uint64_t place) {
    slots_[place % slots_.size()].state.store(State::done, std::memory_order_relaxed);
  }
  /// A device has it; it is over when `event` is done.
  void handed_over(std::uint64_t place, Event event);

  struct Entry {
    Sequence sequence;
    Operation operation;
    State state;
    std::int64_t issued;  ///< steady clock, nanoseconds; likewise
    std::int64_t begun;
    std::int64_t ended;
  };
  /// What stands at a place, if it is still remembered.
  std::optional<Entry> look(std::uint64_t place) const { return place == 0 ? std::nullopt : read(place); }
  /// The collective on host memory with this number, if it is still remembered.
  std::optional<Operation> find(std::uint64_t number) const;

  std::string json() const override;
  /// The name of its communicator: "world", "world/1:0"
  const std::string& communicator() const { return name_; }
  /// All operations so far.
  Totals totals() const;
  /// By sequence, from the newest operations: those beyond the log's length are not seen.
  std::array<Progress, 3> progress() const;

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> place{0};
    std::atomic<std::uint64_t> number{0};
    std::atomic<std::int64_t> count{0};
    std::atomic<std::uint64_t> what{0};  // sequence, kind, dtype, op and root
    std::atomic<std::int64_t> issued{0};
    std::atomic<std::int64_t> begun{0};
    std::atomic<std::int64_t> ended{0};
    std::atomic<State> state{State::issued};
  };
  struct Flight {
    std::uint64_t place;
    Event event;
  };

  static std::uint64_t packed(Sequence sequence, const Operation& operation) {
    return static_cast<std::uint64_t>(operation.kind) | static_cast<std::uint64_t>(operation.dtype) << 8 |
           static_cast<std::uint64_t>(operation.op) << 16 | static_cast<std::uint64_t>(sequence) << 24 |
           static_cast<std::uint64_t>(operation.root) << 32;
  }
  // One thread issues: no two add at once.
  void count(Sequence sequence, const Operation& operation, std::uint64_t bytes) {
    const std::size_t kind =
        sequence == Sequence::group ? kinds - 1 : static_cast<std::size_t>(operation.kind);
    constexpr auto relaxed = std::memory_order_relaxed;
    operations_[kind].store(operations_[kind].load(relaxed) + 1, relaxed);
    bytes_[kind].store(bytes_[kind].load(relaxed) + bytes, relaxed);
  }
  void mark(std::uint64_t place, std::atomic<std::int64_t> Slot::*when, State state);
  std::optional<Entry> read(std::uint64_t place) const;
  void settle_flights() const;
  bool is_over(const Flight& flight) const;

  const std::string name_;
  const std::vector<int> ranks_;
  const int rank_;
  std::atomic<std::uint64_t> last_{0};
  std::array<std::atomic<std::uint64_t>, kinds> operations_{};
  std::array<std::atomic<std::uint64_t>, kinds> bytes_{};
  mutable std::array<Slot, 1024> slots_{};
  mutable std::mutex flights_mutex_;
  mutable RecycledDeque<Flight> flights_;
};

}  // namespace weft::detail
