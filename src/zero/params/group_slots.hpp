#pragma once
// Which group of parameters (FSDP unit) is in which slot (all-gather buffer), which group is evicted, and
// which is prefetched. Pure bookkeeping: the same on every rank that makes the same calls.
//
// The order in which groups were used between the last two updates is the forecast for the next step:
//   evict      the group whose next use is farthest away (Belady 1966); of two, the one used longest ago
//   prefetch   the next groups of the forecast, while there is a slot whose group is not needed sooner
// Where a step uses groups in another order, they are gathered when they are used. The forecast has at most
// most_seen uses, so an evaluation between two updates takes bounded memory. A call searches the forecast
// once for each slot.

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::detail {

class GroupSlots {
 public:
  struct Place {
    int group;
    int slot;
  };
  struct Held {
    int slot;
    bool is_gathered;  ///< otherwise the caller gathers the group into the slot
    friend bool operator==(const Held&, const Held&) = default;
  };

  static constexpr std::size_t most_seen = 8192;  ///< uses that are remembered between two updates

  explicit GroupSlots(int slots) : slots_(static_cast<std::size_t>(slots)) {
    expected_.reserve(most_seen);
    seen_.reserve(most_seen);
  }

  /// Holds the group in a slot; nullopt where all slots are held.
  std::optional<Held> hold(int group);
  void release(int group);
  std::vector<int> held() const;
  /// The next group to prefetch and its slot; call it until it returns nullopt.
  std::optional<Place> next_prefetch();
  /// The parameters have changed: drops the contents of all slots. No group may be held.
  void invalidate();

 private:
  struct Slot {
    int group = -1;
    bool held = false;
    std::uint64_t used = 0;  // the number of its last use; decides where the forecast cannot
  };
  static constexpr std::size_t never = ~std::size_t{0};

  std::size_t next_use(int group) const;
  /// The slot to evict, which is not held and not needed before use `before`; nullopt where there is none.
  std::optional<std::size_t> least_needed(std::size_t before) const;
  void follow(int group);

  std::vector<Slot> slots_;
  std::vector<int> expected_;  // the forecast: the uses between the last two updates
  std::vector<int> seen_;      // the uses since the last update
  std::size_t position_ = 0;   // the next use in `expected_`
  std::uint64_t uses_ = 0;     // since the last update
};

}  // namespace weft::detail
