#pragma once
// Which unit of parameters (FSDP unit) is in which gather buffer, which unit is evicted, and
// which is prefetched. Pure bookkeeping: the same on every rank that makes the same calls.
//
// The order in which units were used between the last two updates is the forecast for the next step:
//   evict      the unit whose next use is farthest away (Belady 1966); of two, the one used longest ago
//   prefetch   the next units of the forecast, while there is a gather buffer whose unit is not needed sooner
// Where a step uses units in another order, they are gathered when they are used. The forecast has at most
// most_seen uses, so an evaluation between two updates takes bounded memory. A call searches the forecast
// once for each gather buffer.

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::detail {

class GatherBuffers {
 public:
  struct Place {
    int unit;
    int buffer;
  };
  struct Held {
    int buffer;
    bool is_gathered;  ///< otherwise the caller gathers the unit into the gather buffer
    friend bool operator==(const Held&, const Held&) = default;
  };

  static constexpr std::size_t most_seen = 8192;  ///< uses that are remembered between two updates

  explicit GatherBuffers(int buffers) : buffers_(static_cast<std::size_t>(buffers)) {
    expected_.reserve(most_seen);
    seen_.reserve(most_seen);
  }

  /// Holds the unit in a gather buffer; nullopt if all gather buffers are held.
  std::optional<Held> hold(int unit);
  void release(int unit);
  std::vector<int> held() const;
  /// The next unit to prefetch and its gather buffer; call it until it returns nullopt.
  std::optional<Place> next_prefetch();
  /// The parameters have changed: drops the contents of all gather buffers. No unit may be held.
  void invalidate();

 private:
  struct GatherBuffer {
    int unit = -1;
    bool held = false;
    std::uint64_t used = 0;  // the number of its last use; decides where the forecast cannot
  };
  static constexpr std::size_t never = ~std::size_t{0};

  std::size_t next_use(int unit) const;
  /// The gather buffer to evict, which is not held and not needed before use `before`; nullopt if there is
  /// none.
  std::optional<std::size_t> least_needed(std::size_t before) const;
  void follow(int unit);

  std::vector<GatherBuffer> buffers_;
  std::vector<int> expected_;  // the forecast: the uses between the last two updates
  std::vector<int> seen_;      // the uses since the last update
  std::size_t position_ = 0;   // the next use in `expected_`
  std::uint64_t uses_ = 0;     // since the last update
};

}  // namespace weft::detail
