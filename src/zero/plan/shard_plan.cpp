// Checks units, assigns buckets to units and parts to ranks; and the table of stages (weft/zero/stage.hpp).

#include "zero/plan/shard_plan.hpp"

#include <algorithm>
#include <array>

#include "weft/core/error.hpp"
#include "weft/zero/stage.hpp"

namespace weft::detail {

void expect_units(const ParamLayout& layout, const std::vector<ParamId>& units) {
  if (units.empty()) return;
  if (units.front() != ParamId{0})
    throw Error(
        ErrorKind::usage,
        text("the first unit begins with parameter ", index(units.front()), " of ", layout.parameters()),
        "every parameter is in a unit: begin with parameter 0");
  for (std::size_t i = 1; i < units.size(); ++i) {
    if (units[i - 1] < units[i] && static_cast<int>(index(units[i])) < layout.parameters()) continue;
    throw Error(ErrorKind::usage,
                text("unit ", i, " begins with parameter ", index(units[i]), ", the one before with ",
                     index(units[i - 1]), ", of ", layout.parameters(), " parameters"),
                "name the first parameter of each unit, in ascending order");
  }
}

ShardPlan::ShardPlan(BucketPlan plan, int ranks, const std::vector<ParamId>& units)
    : plan_(std::move(plan)), ranks_(ranks) {
  expect_units(layout(), units);
  std::int64_t at = 0;
  for (const Bucket& bucket : plan_.buckets()) {
    at_.push_back(at);
    at += bucket.count() / ranks_;
  }
  for (const ParamId first : units.empty() ? std::vector{ParamId{0}} : units) {
    units_.push_back({.begin = layout().offset(first), .first = first});
    if (units_.size() > 1) units_[units_.size() - 2].end = units_.back().begin;
  }
  units_.back().end = plan_.end();
  for (std::size_t bucket = plan_.buckets().size(); bucket-- > 0;) {
    const auto after = std::ranges::upper_bound(units_, plan_.buckets()[bucket].begin, {}, &Unit::begin);
    (after - 1)->buckets.push_back(bucket);
  }
}

int ShardPlan::unit_of(ParamId id) const {
  const auto after = std::ranges::upper_bound(units_, id, {}, &Unit::first);
  return static_cast<int>(after - units_.begin()) - 1;
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
