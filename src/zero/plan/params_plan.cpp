// Steps: check the options; cut buckets of whole parameters, each a multiple of whole cache lines for every
// rank (stages 1 to 3); size the gradients' buffer; then decide for each group whether it is replicated or
// sharded, and size the slots.

#include "zero/plan/params_plan.hpp"

#include <algorithm>
#include <numeric>

#include "gradient/windows/windows.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {
namespace {

using zero::Placement;

/// Every bucket is a multiple of this: whole cache lines and the hook's granularity for every rank.
std::int64_t unit(const ParamsSharing& sharing, DataType dtype) {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(dtype));
  return std::lcm(line, sharing.granularity) * sharing.ranks;
}

void expect_shards(const ParamLayout& layout, const ParamsSharing& sharing) {
  std::int64_t elements = 0;
  for (int i = 0; i < layout.parameters(); ++i) elements += layout.count(ParamId{i});
  if (elements >= sharing.ranks) return;
  throw Error(ErrorKind::usage,
              text("stage ", sharing.stage, " of ", elements, " parameters over ", sharing.ranks, " ranks"),
              "there are fewer parameters than shards: use stage 0");
}

}  // namespace

void expect_held_groups(int held_groups) {
  if (held_groups < 1)
    throw Error(ErrorKind::usage, text("held_groups is ", held_groups), "a trainer holds 1 at least");
}

void expect_offload_fits(int stage, bool parameters, bool gradients) {
  const zero::Stage placed = zero::stage(stage);
  if (parameters && placed.parameters == Placement::replicated)
    throw Error(ErrorKind::usage, text("parameters are offloaded in stage ", stage),
                "all are in use at any time there: use stage 3");
  if (gradients && placed.gradients == Placement::replicated)
    throw Error(ErrorKind::usage, text("gradients are offloaded in stage ", stage),
                "they are whole on every rank there: use stage 2 or 3");
}

std::size_t usual_bucket_bytes(int nodes) {
  return std::size_t{nodes == 1 ? 1U : 4U} << 20;
}

std::int64_t group_slots(std::int64_t groups, std::int64_t group_bytes, int held_groups,
                         std::optional<std::size_t> prefetch_bytes) {
  const std::int64_t ahead = prefetch_bytes ? static_cast<std::int64_t>(*prefetch_bytes) / group_bytes : 1;
  return std::min(groups, held_groups + ahead);
}

ParamsPlan::ParamsPlan(const ParamLayout& layout, const ParamsSharing& sharing) {
  const zero::Stage stage = zero::stage(sharing.stage);
  expect_groups(layout, sharing.groups);
  expect_held_groups(sharing.held_groups);
  if (stage.optimizer == Placement::sharded) {
    plan_shards(layout, sharing, stage);
  } else {
    gradients_ = layout.size();
    state_ = layout.size();
  }
  place_groups(shards_ ? shards_->layout() : layout, sharing, stage);
}

void ParamsPlan::plan_shards(const ParamLayout& layout, const ParamsSharing& sharing,
                             const zero::Stage& stage) {
  expect_shards(layout, sharing);
  const DataType dtype = layout.dtype();
  shards_.emplace(plan_whole_buckets(layout, sharing.bucket_bytes, unit(sharing, dtype), sharing.groups),
                  sharing.ranks, sharing.groups);
  const BucketPlan& plan = shards_->plan();
  gradients_ = plan.end();
  state_ = shards_->shard_elements();
  if (stage.gradients == Placement::replicated) return;
  window_bytes_ = sharing.window_bytes.value_or(
      usual_window_bytes(static_cast<std::size_t>(plan.end()) * size_of(dtype)));
  gradients_ = window_elements(plan, *window_bytes_);
}

void ParamsPlan::place_groups(const ParamLayout& layout, const ParamsSharing& sharing,
                              const zero::Stage& stage) {
  const std::int64_t end = shards_ ? shards_->plan().end() : layout.size();
  const std::vector<ParamId> firsts = sharing.groups.empty() ? std::vector{ParamId{0}} : sharing.groups;
  std::int64_t gathered = 0;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const std::int64_t begin = layout.offset(firsts[i]);
    const std::int64_t after = i + 1 < firsts.size() ? layout.offset(firsts[i + 1]) : end;
    Group group{.first = firsts[i], .begin = begin, .count = after - begin};
    if (shards_) group.buckets = shards_->groups()[i].buckets;
    if (stage.parameters == Placement::replicated || group.count < sharing.whole_below) {
      group.whole_at = whole_;
      whole_ += group.count;
    } else {
      shard_ += group.count / sharing.ranks;
      slot_ = std::max(slot_, group.count);
      ++gathered;
    }
    groups_.push_back(std::move(group));
  }
  if (gathered == 0) return;
  const auto bytes = slot_ * static_cast<std::int64_t>(size_of(layout.dtype()));
  slots_ = static_cast<int>(group_slots(gathered, bytes, sharing.held_groups, sharing.prefetch_bytes));
}

std::int64_t ParamsPlan::gradient_shard() const {
  return shards_ && window_bytes_ ? shards_->shard_elements() : 0;
}

}  // namespace weft::detail
