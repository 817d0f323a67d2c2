// Checks groups, assigns buckets to groups and parts to ranks; and the table of stages (weft/zero/stage.hpp).

#include "zero/plan/shard_plan.hpp"

#include <algorithm>
#include <array>

#include "weft/core/error.hpp"
#include "weft/zero/stage.hpp"

namespace weft::detail {

void expect_groups(const ParamLayout& layout, const std::vector<ParamId>& groups) {
  if (groups.empty()) return;
  if (groups.front() != ParamId{0})
    throw Error(
        ErrorKind::usage,
        text("the first group begins with parameter ", index(groups.front()), " of ", layout.parameters()),
        "every parameter is in a group: begin with parameter 0");
  for (std::size_t i = 1; i < groups.size(); ++i) {
    if (groups[i - 1] < groups[i] && static_cast<int>(index(groups[i])) < layout.parameters()) continue;
    throw Error(ErrorKind::usage,
                text("group ", i, " begins with parameter ", index(groups[i]), ", the one before with ",
                     index(groups[i - 1]), ", of ", layout.parameters(), " parameters"),
                "name the first parameter of each group, in ascending order");
  }
}

ShardPlan::ShardPlan(BucketPlan plan, int ranks, const std::vector<ParamId>& groups)
    : plan_(std::move(plan)), ranks_(ranks) {
  expect_groups(layout(), groups);
  std::int64_t at = 0;
  for (const Bucket& bucket : plan_.buckets()) {
    at_.push_back(at);
    at += bucket.count() / ranks_;
  }
  for (const ParamId first : groups.empty() ? std::vector{ParamId{0}} : groups) {
    groups_.push_back({.begin = layout().offset(first), .first = first});
    if (groups_.size() > 1) groups_[groups_.size() - 2].end = groups_.back().begin;
  }
  groups_.back().end = plan_.end();
  for (std::size_t bucket = plan_.buckets().size(); bucket-- > 0;) {
    const auto after = std::ranges::upper_bound(groups_, plan_.buckets()[bucket].begin, {}, &Group::begin);
    (after - 1)->buckets.push_back(bucket);
  }
}

int ShardPlan::group_of(ParamId id) const {
  const auto after = std::ranges::upper_bound(groups_, id, {}, &Group::first);
  return static_cast<int>(after - groups_.begin()) - 1;
}

std::size_t ShardPlan::number(const Bucket& bucket) const {
  const auto& all = plan_.buckets();
  const auto found = std::ranges::lower_bound(all, bucket.begin, std::ranges::greater(), &Bucket::begin);
  return static_cast<std::size_t>(found - all.begin());
}

ShardPlan::Part ShardPlan::part(std::size_t bucket, int rank) const {
  const Bucket& whole = plan_.buckets()[bucket];
  const std::int64_t count = whole.count() / ranks_;
  return {.begin = whole.begin + count * rank, .count = count, .at = at_[bucket]};
}

}  // namespace weft::detail

namespace weft::zero {

Stage stage(int number) {
  constexpr Placement whole = Placement::replicated;
  constexpr Placement shard = Placement::sharded;
  constexpr std::array<Stage, 4> table{
      {{whole, whole, whole}, {shard, whole, whole}, {shard, shard, whole}, {shard, shard, shard}}};
  if (number < 0 || number >= static_cast<int>(table.size()))
    throw Error(ErrorKind::usage, text("there is no stage ", number, " of ZeRO"),
                "allowed are 0, 1, 2 and 3");
  return table[static_cast<std::size_t>(number)];
}

}  // namespace weft::zero
