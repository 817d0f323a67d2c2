#pragma once
// What ShardedParams keep on each rank, before anything is allocated: a plain value, from which memory is
// made and from which a memory plan counts it.
//
// Groups that stay whole lie one after the other in one memory, which in stages 0 to 2 makes the flat space.
// Of all others a rank keeps its parts of their buckets, and slots that groups are gathered into in turn.

#include <optional>
#include <vector>

#include "weft/zero/stage.hpp"
#include "zero/shard_plan.hpp"

namespace weft::detail {

/// What is shared out, and how: of ShardedOptions what memory depends on.
struct ParamsSharing {
  int stage = 2;
  int ranks = 1;
  std::size_t bucket_bytes = 0;
  std::optional<std::size_t> window_bytes{};
  std::int64_t granularity = 1;  ///< of the hook
  std::vector<ParamId> groups{};
  std::optional<std::size_t> prefetch_bytes{};
  int held_groups = 1;
  std::int64_t whole_below = 0;
};

class ParamsPlan {
 public:
  struct Group {
    ParamId first{};
    std::int64_t begin = 0;  ///< of the flat space
    std::int64_t count = 0;
    std::vector<std::size_t> buckets{};  ///< where anything is sharded
    std::optional<std::int64_t>
        whole_at{};  ///< in the memory of whole groups; none: it is gathered into slots
  };

  /// @throws Error (usage) for a stage outside 0 to 3, groups that are none, fewer elements than ranks, or
  /// held_groups below 1
  ParamsPlan(const ParamLayout& layout, const ParamsSharing& sharing);

  /// Where anything is sharded.
  const std::optional<ShardPlan>& shards() const { return shards_; }
  /// Of gradients, where they lie in windows.
  const std::optional<std::size_t>& window_bytes() const { return window_bytes_; }
  const std::vector<Group>& groups() const { return groups_; }

  // Elements of memory.
  std::int64_t whole() const { return whole_; }
  /// This rank's parts of groups that do not stay whole.
  std::int64_t shard() const { return shard_; }
  int slots() const { return slots_; }
  /// Of each slot: those of the largest group that is gathered.
  std::int64_t slot() const { return slot_; }
  std::int64_t gradients() const { return gradients_; }
  /// What is left of gradients in windows; 0 where they do not lie there.
  std::int64_t gradient_shard() const;
  /// Of masters and of each moment.
  std::int64_t state() const { return state_; }

 private:
  void share_out(const ParamLayout& layout, const ParamsSharing& sharing, const zero::Stage& stage);
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

// What plans of memory and engines refuse alike. @throws Error (usage)
void expect_held_groups(int held_groups);
void expect_offload_fits(int stage, bool parameters, bool gradients);

/// What buckets hold where nobody says it.
std::size_t usual_bucket_bytes(int nodes);
/// What gradients in windows have where nobody says it. @param bytes of all gradients
constexpr std::size_t usual_window_bytes(std::size_t bytes) {
  return bytes / 8;
}
/// Slots for groups. @param group_bytes of the largest @param groups that are gathered at all
std::int64_t group_slots(std::int64_t groups, std::int64_t group_bytes, int held_groups,
                         std::optional<std::size_t> prefetch_bytes);

}  // namespace weft::detail
