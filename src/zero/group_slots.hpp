#pragma once
// Which group of parameters is in which slot, which goes when another comes, and which is fetched ahead: pure
// bookkeeping, the same on every rank that makes the same calls.
//
// The order in which groups were used between two updates of the parameters is taken for that of the next
// time: what is needed last goes first (Belady 1966), and what is needed next is fetched as long as it drives
// out nothing that is needed sooner. Where the order was another one, groups are fetched when they are asked
// for. Of an order that is very long (an evaluation between two updates) the first uses are remembered.

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
    bool is_there;  ///< else it has to be fetched into the slot
    friend bool operator==(const Held&, const Held&) = default;
  };

  static constexpr std::size_t most_seen = 8192;

  explicit GroupSlots(int slots) : slots_(static_cast<std::size_t>(slots)) {
    expected_.reserve(most_seen);
    seen_.reserve(most_seen);
  }

  /// None where all slots are held.
  std::optional<Held> hold(int group);
  void release(int group);
  std::vector<int> held() const;
  /// What to fetch ahead next, if anything; call until there is nothing.
  std::optional<Place> ahead();
  /// The parameters have changed: what is there is of no use. No group may be held.
  void forget();

 private:
  struct Slot {
    int group = -1;
    bool held = false;
    std::uint64_t used = 0;  // held last, by number of uses; the least where nobody knows better
  };
  static constexpr std::size_t never = ~std::size_t{0};

  std::size_t next_use(int group) const;
  /// Not held, and not needed before `before`; none: there is no such slot.
  std::optional<std::size_t> least_needed(std::size_t before) const;
  void follow(int group);

  std::vector<Slot> slots_;
  std::vector<int> expected_;  // the order of the last time
  std::vector<int> seen_;      // of this time
  std::size_t position_ = 0;   // in `expected_`: what comes next
  std::uint64_t uses_ = 0;     // between two updates
};

}  // namespace weft::detail
