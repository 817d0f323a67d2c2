#pragma once
// How much memory ShardedParams needs on each rank: a plain value. ShardedParams allocates by it, and memory
// plans count it.
//
// Replicated groups lie one after the other in one buffer, which in stages 0 to 2 is the flat space. Of
// sharded groups a rank keeps its part of each bucket, and slots (all-gather buffers) that groups are
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
  std::optional<std::size_t> window_bytes{};
  std::int64_t granularity = 1;  ///< CommHook::granularity
  std::vector<ParamId> groups{};
  std::optional<std::size_t> prefetch_bytes{};
  int held_groups = 1;
  std::int64_t whole_below = 0;
};

class ParamsPlan {
 public:
  struct Group {
    ParamId first{};
    std::int64_t begin = 0;  ///< in the flat space
    std::int64_t count = 0;
    std::vector<std::size_t> buckets{};  ///< empty where nothing is sharded
    /// Offset in the memory of replicated groups; nullopt: the group is gathered into slots.
    std::optional<std::int64_t> whole_at{};
  };

  /// @throws Error (usage) for a stage outside 0 to 3, groups that do not ascend, fewer elements than ranks,
  /// or held_groups below 1
  ParamsPlan(const ParamLayout& layout, const ParamsSharing& sharing);

  /// nullopt in stage 0, where nothing is sharded.
  const std::optional<ShardPlan>& shards() const { return shards_; }
  /// Bytes of gradient windows; nullopt in stages 0 and 1, which have none.
  const std::optional<std::size_t>& window_bytes() const { return window_bytes_; }
  const std::vector<Group>& groups() const { return groups_; }

  // The sizes below are in elements.

  /// Replicated parameters.
  std::int64_t whole() const { return whole_; }
  /// This rank's shard of the sharded groups.
  std::int64_t shard() const { return shard_; }
  /// The number of slots.
  int slots() const { return slots_; }
  /// The size of a slot, which is that of the largest sharded group.
  std::int64_t slot() const { return slot_; }
  /// The gradients' buffer: all gradients, or their windows.
  std::int64_t gradients() const { return gradients_; }
  /// This rank's shard of the averaged gradients; 0 without windows.
  std::int64_t gradient_shard() const;
  /// Masters, and each moment.
  std::int64_t state() const { return state_; }

 private:
  void plan_shards(const ParamLayout& layout, const ParamsSharing& sharing, const zero::Stage& stage);
  void place_groups(const ParamLayout& layout, const ParamsSharing& sharing, const zero::Stage& stage);

  std::optional<ShardPlan> shards_;
  std::optional<std::size_t> window_bytes_;
  std::vector<Group> groups_;
  std::int64_t whole_ = 0;
  std::int64_t shard_ = 0;
  int slots_ = 0;
  std::int64_t slot_ = 0;
  std::int64_t gradients_ = 0;
  std::int64_t state_ = 0;
};

// Checks that memory plans and ShardedParams have in common. @throws Error (usage)
void expect_held_groups(int held_groups);
void expect_offload_fits(int stage, bool parameters, bool gradients);

/// The default of bucket_bytes.
std::size_t usual_bucket_bytes(int nodes);
/// The default of window_bytes. @param bytes the bytes of all gradients
constexpr std::size_t usual_window_bytes(std::size_t bytes) {
  return bytes / 8;
}
/// The number of slots.
/// @param groups how many groups are sharded
/// @param group_bytes the bytes of the largest
std::int64_t group_slots(std::int64_t groups, std::int64_t group_bytes, int held_groups,
                         std::optional<std::size_t> prefetch_bytes);

}  // namespace weft::detail
