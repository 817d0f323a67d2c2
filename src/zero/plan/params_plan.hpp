#pragma once
// How much memory ShardedParams needs on each rank: a plain value. ShardedParams allocates by it, and memory
// plans count it.
//
// Replicated units lie one after the other in one buffer, which in stages 0 to 2 is the flat space. Of
// sharded units a rank keeps its part of each bucket, and gather buffers that units are
// gathered into in turn.

#include <optional>
#include <vector>

#include "weft/zero/stage.hpp"
#include "zero/plan/shard_plan.hpp"

namespace weft::detail {

/// The fields of ShardedOptions that memory depends on.
struct ParamsSharing {
  int stage = 2;
  int ranks = 1;
  std::size_t bucket_bytes = 0;
  std::optional<std::size_t> bucket_ring_bytes{};
  std::int64_t granularity = 1;  ///< CommHook::granularity
  std::vector<ParamId> units{};
  std::optional<std::size_t> prefetch_bytes{};
  int held_units = 1;
  std::int64_t whole_below = 0;
};

class ParamsPlan {
 public:
  struct Unit {
    ParamId first{};
    std::int64_t begin = 0;  ///< in the flat space
    std::int64_t count = 0;
    std::vector<std::size_t> buckets{};  ///< empty if nothing is sharded
    /// Offset in the memory of replicated units; nullopt: the unit is gathered into gather buffers.
    std::optional<std::int64_t> whole_at{};
  };

  /// @throws Error (usage) for a stage outside 0 to 3, units that do not ascend, fewer elements than ranks,
  /// or held_units below 1
  ParamsPlan(const ParamLayout& layout, const ParamsSharing& sharing);

  /// nullopt in stage 0, in which nothing is sharded.
  const std::optional<ShardPlan>& shards() const { return shards_; }
  /// Bytes of the bucket ring; nullopt in stages 0 and 1, which have none.
  const std::optional<std::size_t>& bucket_ring_bytes() const { return bucket_ring_bytes_; }
  const std::vector<Unit>& units() const { return units_; }

  // The sizes below are in elements.

  /// Replicated parameters.
  std::int64_t whole() const { return whole_; }
  /// This rank's shard of the sharded units.
  std::int64_t shard() const { return shard_; }
  /// The number of gather buffers.
  int gather_buffers() const { return gather_buffers_; }
  /// The size of a gather buffer, which is that of the largest sharded unit.
  std::int64_t gather_buffer() const { return gather_buffer_; }
  /// The gradients' buffer: all gradients, or the bucket ring.
  std::int64_t gradients() const { return gradients_; }
  /// This rank's shard of the averaged gradients; 0 without a bucket ring.
  std::int64_t gradient_shard() const;
  /// Masters, and each moment.
  std::int64_t state() const { return state_; }

 private:
  void plan_shards(const ParamLayout& layout, const ParamsSharing& sharing, const zero::Stage& stage);
  void place_units(const ParamLayout& layout, const ParamsSharing& sharing, const zero::Stage& stage);

  std::optional<ShardPlan> shards_;
  std::optional<std::size_t> bucket_ring_bytes_;
  std::vector<Unit> units_;
  std::int64_t whole_ = 0;
  std::int64_t shard_ = 0;
  int gather_buffers_ = 0;
  std::int64_t gather_buffer_ = 0;
  std::int64_t gradients_ = 0;
  std::int64_t state_ = 0;
};

// Checks that memory plans and ShardedParams have in common. @throws Error (usage)
void expect_held_units(int held_units);
void expect_offload_fits(int stage, bool parameters, bool gradients);

/// The default of bucket_bytes.
std::size_t usual_bucket_bytes(int nodes);
/// The default of bucket_ring_bytes. @param bytes the bytes of all gradients
constexpr std::size_t usual_ring_bytes(std::size_t bytes) {
  return bytes / 8;
}
/// The number of gather buffers.
/// @param units how many units are sharded
/// @param unit_bytes the bytes of the largest
std::int64_t gather_buffer_count(std::int64_t units, std::int64_t unit_bytes, int held_units,
                                 std::optional<std::size_t> prefetch_bytes);

}  // namespace weft::detail
