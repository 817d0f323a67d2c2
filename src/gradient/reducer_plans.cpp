// Which buckets a reducer has: as the options say, and then as the first steps show.

#include <algorithm>
#include <numeric>

#include "gradient/agreement.hpp"
#include "gradient/given_plan.hpp"
#include "gradient/reducer_state.hpp"
#include "weft/core/log.hpp"

namespace weft {

BucketPlan GradientReducer::State::first_plan(const ParamLayout& layout) {
  if (options_.plan) {
    detail::agree_on(comm_, *options_.plan);
    expect_given_plan(*options_.plan, layout);
    return *options_.plan;
  }
  if (is_planned_) return divisible(detail::probing_plan(layout_));
  const std::size_t usual = std::size_t{comm_.topology().nodes() == 1 ? 1U : 25U} << 20;
  return divisible(plan_buckets(layout_, options_.bucket_bytes.value_or(usual)));
}

void GradientReducer::State::expect_given_plan(const BucketPlan& plan, const ParamLayout& layout) const {
  detail::expect_complete(plan, layout);
  if (options_.means == Means::sharded) {
    detail::expect_parts(plan, part_unit(), comm_.size());
  } else {
    detail::expect_blocks(plan, hook_->granularity());
  }
  if (options_.window_bytes) detail::expect_whole_parameters(plan);
}

// Of what a rank has means of: whole cache lines, and whole blocks of the hook and, sharded, where squares
// are summed by block, of those.
std::int64_t GradientReducer::State::part_unit() const {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(layout_.dtype()));
  const std::int64_t unit = std::lcm(line, hook_->granularity());
  return squares_ && options_.means == Means::sharded ? std::lcm(unit, options_.norm_block) : unit;
}

// Sharded, every rank's part of a bucket is whole units. A tree of sums needs a part for every rank, which
// buckets of whole cache lines mostly have. What a hook asks for holds in any case.
BucketPlan GradientReducer::State::divisible(BucketPlan plan) const {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(plan.layout().dtype()));
  std::int64_t unit = part_unit();
  if (options_.means == Means::sharded) return aligned(plan, unit * comm_.size());
  if (parts_) unit = std::lcm<std::int64_t>(unit, comm_.size());
  return unit == line ? plan : aligned(plan, unit, parts_ ? Tail::padded : Tail::partial);
}

detail::BlockSquares::Range GradientReducer::State::landing(const Bucket& bucket) const {
  if (options_.means == Means::everywhere) return {bucket.begin, bucket.end};
  const std::int64_t part = bucket.count() / comm_.size();
  const std::int64_t begin = bucket.begin + part * comm_.rank();
  return {begin, begin + part};
}

void GradientReducer::State::adopt(BucketPlan plan) {
  if (!options_.plan) detail::agree_on(comm_, plan);
  plan_ = std::make_unique<BucketPlan>(std::move(plan));
  hook_->planned(*plan_, windows_ ? space_ : memory_.view().slice(0, plan_->end()), comm_);
  ready_->adopt(*plan_);
  clock_.adopt(plan_->buckets().size());
  reduced_.assign(plan_->buckets().size(), {});
  warm_up_.emplace();
  if (!squares_) return;
  std::vector<detail::BlockSquares::Range> all;
  for (const Bucket& bucket : plan_->buckets()) all.push_back(landing(bucket));
  squares_->adopt(all);
}

void GradientReducer::State::plan_from_what_was_seen() {
  wire_->synchronize();
  profile_ = observed_->agree(comm_, *plan_, clock_, wire_->lane(0));
  const auto& [ready_seconds, link] = *profile_;
  observed_.reset();
  // Steps differ, and a bucket waits for the last of its gradients: none is so large that smaller ones would
  // cost more than a fiftieth of its time.
  constexpr double worth_a_latency = 50;
  const double most_bytes = std::max(1.0, worth_a_latency * link.latency_seconds * link.bytes_per_second);
  BucketPlan planned = divisible(
      plan_buckets(layout(), ready_seconds, link, static_cast<std::size_t>(std::min(most_bytes, 1e15))));
  log::info(text("rank ", comm_.rank(), ": buckets of ", link.latency_seconds * 1e6, " us and ",
                 link.bytes_per_second * 1e-9, " GB/s; exposed ",
                 forecast(*plan_, ready_seconds, link).exposed_seconds * 1e3, " ms in ",
                 plan_->buckets().size(), " buckets, planned ",
                 forecast(planned, ready_seconds, link).exposed_seconds * 1e3, " ms in ",
                 planned.buckets().size()));
  first_plan_ = std::move(plan_);
  adopt(std::move(planned));
}

}  // namespace weft
