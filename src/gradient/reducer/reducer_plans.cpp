// The buckets of a reducer: given by the options and checked, or made by size, or planned from observed
// steps.
//
// Without bucket_bytes, and with a thread for communication on every rank:
//   1. steps 1 to 5 use probing_plan(), small and large buckets in turn;
//   2. at the beginning of step 6 all ranks agree on ready times and the link (ObservedSteps::agree());
//   3. plan_buckets() finds the plan with the least exposed time, and all ranks adopt it.
//
// BucketsAsSeen keep their ranges, and change their order once, at the beginning of the second exchanged step.

#include <algorithm>
#include <numeric>

#include "gradient/bucket_ring/ring_gradients.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "gradient/reducer/observed_steps.hpp"
#include "gradient/reducer/reducer_state.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

std::string range(const Bucket& bucket) {
  return text("[", bucket.begin, ", ", bucket.end, ")");
}

[[noreturn]] void refuse_plan(const std::string& problem, const std::string& advice) {
  throw Error(ErrorKind::usage, "ReducerOptions::plan: " + problem, advice);
}

/// The parameters that have elements in the bucket.
std::vector<ParamId> within(const ParamLayout& layout, const Bucket& bucket) {
  std::vector<ParamId> ids;
  for (int i = 0; i < layout.parameters(); ++i) {
    const ParamId id{i};
    if (layout.offset(id) < bucket.end && layout.offset(id) + layout.count(id) > bucket.begin)
      ids.push_back(id);
  }
  return ids;
}

/// @throws Error (usage) unless the plan is of the parameters of `layout`, and every element of its flat
/// space is in one bucket, which lists the parameters that it has elements of
void expect_complete(const BucketPlan& plan, const ParamLayout& layout) {
  if (!plan.layout().has_parameters_of(layout))
    refuse_plan(text("its ", plan.layout().parameters(), " parameters of ", plan.layout().dtype(),
                     " are not the reducer's ", layout.parameters(), " of ", layout.dtype()),
                "plan buckets of the reducer's own layout");
  std::vector<Bucket> buckets = plan.buckets();
  std::ranges::sort(buckets, {}, &Bucket::begin);
  std::int64_t covered = 0;
  for (const Bucket& bucket : buckets) {
    if (bucket.begin != covered || bucket.end <= bucket.begin)
      refuse_plan(text("bucket ", range(bucket), " follows on element ", covered),
                  "every element of the flat space is in one bucket");
    covered = bucket.end;
    std::vector<ParamId> listed = bucket.params;
    std::ranges::sort(listed);
    if (listed != within(plan.layout(), bucket))
      refuse_plan(text("bucket ", range(bucket), " does not list the parameters that lie in it"),
                  "plan_whole_buckets(), plan_buckets() and aligned() do");
  }
  if (covered < plan.layout().size())
    refuse_plan(text("buckets end at element ", covered, " of ", plan.layout().size()),
                "every element of the flat space is in one bucket");
}

/// @throws Error (usage) unless every bucket begins at a multiple of `unit` elements, and ends at one or
/// where the layout does
void expect_blocks(const BucketPlan& plan, std::int64_t unit) {
  for (const Bucket& bucket : plan.buckets()) {
    const bool ends = bucket.end % unit == 0 || bucket.end == plan.layout().size();
    if (bucket.begin % unit != 0 || !ends)
      refuse_plan(text("bucket ", range(bucket), " for a hook that takes multiples of ", unit, " elements"),
                  text("plan with plan_whole_buckets() and a unit of ", unit, ", or with aligned()"));
  }
}

/// @throws Error (usage) unless every bucket has a part of whole `unit`s for each rank
void expect_parts(const BucketPlan& plan, std::int64_t unit, int ranks) {
  for (const Bucket& bucket : plan.buckets()) {
    if (bucket.begin % unit == 0 && bucket.count() % (unit * ranks) == 0) continue;
    refuse_plan(text("bucket ", range(bucket), " for ", ranks, " ranks with a part each of multiples of ",
                     unit, " elements"),
                text("plan with plan_whole_buckets() and a unit of ", unit * ranks));
  }
}

/// @throws Error (usage) when a parameter lies in two buckets
void expect_whole_parameters(const BucketPlan& plan) {
  std::vector<bool> seen(static_cast<std::size_t>(plan.layout().parameters()));
  for (const Bucket& bucket : plan.buckets()) {
    for (const ParamId id : bucket.params) {
      if (seen[index(id)])
        refuse_plan(
            text(plan.layout().name(id), " lies in two buckets, which a bucket ring cannot hold apart"),
            "plan with plan_whole_buckets()");
      seen[index(id)] = true;
    }
  }
}

}  // namespace

BucketPlan GradientReducer::State::first_plan(const ParamLayout& layout) {
  if (const auto* const given = std::get_if<BucketPlan>(&options_.buckets)) {
    detail::agree_on(comm_, *given);
    expect_given_plan(*given, layout);
    return *given;
  }
  if (is_planned_) return divisible(detail::probing_plan(layout_));
  if (const auto* const as_seen = std::get_if<BucketsAsSeen>(&options_.buckets))
    return divisible(plan_buckets(layout_, as_seen->bytes, as_seen->alone));
  const bool is_near = comm_.device().is_host() && comm_.topology().nodes() == 1;
  const BucketBytes usual{std::size_t{is_near ? 1U : 25U} << 20};
  const auto* const given = std::get_if<BucketBytes>(&options_.buckets);
  return divisible(plan_buckets(layout_, (given ? *given : usual).bytes));
}

void GradientReducer::State::expect_given_plan(const BucketPlan& plan, const ParamLayout& layout) const {
  expect_complete(plan, layout);
  if (options_.means == Means::sharded) {
    expect_parts(plan, part_unit(), comm_.size());
  } else {
    expect_blocks(plan, hook_->granularity());
  }
  if (options_.ring) expect_whole_parameters(plan);
}

// The unit of a rank's part of a bucket: whole cache lines and whole blocks of the hook. If sharded means
// are summed by block (norm_block), also whole blocks of that.
std::int64_t GradientReducer::State::part_unit() const {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(layout_.dtype()));
  const std::int64_t unit = std::lcm(line, hook_->granularity());
  return squares_ && options_.means == Means::sharded ? std::lcm(unit, options_.norm_block) : unit;
}

// Moves the ends of buckets to the multiples that they need: with sharded means a part of whole units for
// every rank, with a tree of sums an equal slice for every rank, and always whole blocks of the hook.
BucketPlan GradientReducer::State::divisible(BucketPlan plan) const {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(plan.layout().dtype()));
  std::int64_t unit = part_unit();
  if (options_.means == Means::sharded) return aligned(plan, unit * comm_.size());
  if (tree_) unit = std::lcm<std::int64_t>(unit, comm_.size());
  return unit == line ? plan : aligned(plan, unit, tree_ ? Tail::padded : Tail::partial);
}

detail::BlockSquares::Range GradientReducer::State::owned(const Bucket& bucket) const {
  if (options_.means == Means::everywhere) return {bucket.begin, bucket.end};
  const std::int64_t part = bucket.count() / comm_.size();
  const std::int64_t begin = bucket.begin + part * comm_.rank();
  return {begin, begin + part};
}

void GradientReducer::State::adopt(BucketPlan plan) {
  if (!std::holds_alternative<BucketPlan>(options_.buckets)) detail::agree_on(comm_, plan);
  plan_ = std::make_unique<BucketPlan>(std::move(plan));
  hook_->planned(*plan_, ring_ ? space_ : memory_.view().slice(0, plan_->end()), comm_);
  ready_->adopt(*plan_);
  clock_.adopt(plan_->buckets().size());
  reduced_.assign(plan_->buckets().size(), {});
  in_place_.assign(plan_->buckets().size(), {});
  warm_up_.emplace();
  if (!squares_) return;
  std::vector<detail::BlockSquares::Range> all;
  for (const Bucket& bucket : plan_->buckets()) all.push_back(owned(bucket));
  squares_->adopt(all);
}

// A bucket is complete with the last of its gradients, and for all ranks where that came last.
void GradientReducer::State::order_as_seen() {
  std::vector<std::int32_t> turn(static_cast<std::size_t>(layout().parameters()));
  for (std::size_t i = 0; i < seen_->size(); ++i) turn[index((*seen_)[i])] = static_cast<std::int32_t>(i);
  seen_.reset();
  std::vector<Bucket> buckets = plan_->buckets();
  std::vector<std::int32_t> complete(buckets.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    for (const ParamId id : buckets[i].params) complete[i] = std::max(complete[i], turn[index(id)]);
  }
  wire_->synchronize();
  if (device_clock_) device_clock_->finish(Deadline::in(comm_.timeout()));
  Stream stream;
  comm_.all_reduce(View(std::span(complete)), ReduceOp::max, stream).wait();
  std::vector<std::size_t> order(buckets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t bucket) { return complete[bucket]; });
  if (std::ranges::is_sorted(order)) return;
  std::ranges::transform(order, buckets.begin(),
                         [this](std::size_t bucket) { return plan_->buckets()[bucket]; });
  BucketPlan seen(layout(), std::move(buckets));
  first_plan_ = std::move(plan_);
  adopt(std::move(seen));
}

void GradientReducer::State::plan_from_observed_steps() {
  wire_->synchronize();
  if (device_clock_) device_clock_->finish(Deadline::in(comm_.timeout()));
  profile_ = observed_->agree(comm_, *plan_, clock_, wire_->lane(0));
  const auto& [ready_seconds, link] = *profile_;
  observed_.reset();
  // Steps differ, and a bucket waits for the last of its gradients. So buckets are limited to a size at which
  // cutting one in two, one more latency, costs a fiftieth of its time.
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
