// Steps: check the options; cut buckets of whole parameters, each a multiple of whole cache lines for every
// rank (stages 1 to 3); size the gradients' buffer; then decide for each unit whether it is replicated or
// sharded, and size the gather buffers.

#include "zero/plan/params_plan.hpp"

#include <algorithm>
#include <numeric>

#include "gradient/bucket_ring/ring_places.hpp"
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

void expect_held_units(int held_units) {
  if (held_units < 1)
    throw Error(ErrorKind::usage, text("held_units is ", held_units), "a trainer holds 1 at least");
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

std::int64_t gather_buffer_count(std::int64_t units, std::int64_t unit_bytes, int held_units,
                                 std::optional<std::size_t> prefetch_bytes) {
  const std::int64_t ahead = prefetch_bytes ? static_cast<std::int64_t>(*prefetch_bytes) / unit_bytes : 1;
  return std::min(units, held_units + ahead);
}

ParamsPlan::ParamsPlan(const ParamLayout& layout, const ParamsSharing& sharing) {
  const zero::Stage stage = zero::stage(sharing.stage);
  expect_units(layout, sharing.units);
  expect_held_units(sharing.held_units);
  if (stage.optimizer == Placement::sharded) {
    plan_shards(layout, sharing, stage);
  } else {
    gradients_ = layout.size();
    state_ = layout.size();
  }
  place_units(shards_ ? shards_->layout() : layout, sharing, stage);
}

void ParamsPlan::plan_shards(const ParamLayout& layout, const ParamsSharing& sharing,
                             const zero::Stage& stage) {
  expect_shards(layout, sharing);
  const DataType dtype = layout.dtype();
  shards_.emplace(plan_whole_buckets(layout, sharing.bucket_bytes, unit(sharing, dtype), sharing.units),
                  sharing.ranks, sharing.units);
  const BucketPlan& plan = shards_->plan();
  gradients_ = plan.end();
  state_ = shards_->shard_elements();
  if (stage.gradients == Placement::replicated) return;
  bucket_ring_bytes_ = sharing.bucket_ring_bytes.value_or(
      usual_ring_bytes(static_cast<std::size_t>(plan.end()) * size_of(dtype)));
  gradients_ = ring_elements(plan, *bucket_ring_bytes_);
}

void ParamsPlan::place_units(const ParamLayout& layout, const ParamsSharing& sharing,
                             const zero::Stage& stage) {
  const std::int64_t end = shards_ ? shards_->plan().end() : layout.size();
  const std::vector<ParamId> firsts = sharing.units.empty() ? std::vector{ParamId{0}} : sharing.units;
  std::int64_t gathered = 0;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const std::int64_t begin = layout.offset(firsts[i]);
    const std::int64_t after = i + 1 < firsts.size() ? layout.offset(firsts[i + 1]) : end;
    Unit unit{.first = firsts[i], .begin = begin, .count = after - begin};
    if (shards_) unit.buckets = shards_->units()[i].buckets;
    if (stage.parameters == Placement::replicated || unit.count < sharing.whole_below) {
      unit.whole_at = whole_;
      whole_ += unit.count;
    } else {
      shard_ += unit.count / sharing.ranks;
      gather_buffer_ = std::max(gather_buffer_, unit.count);
      ++gathered;
    }
    units_.push_back(std::move(unit));
  }
  if (gathered == 0) return;
  const auto bytes = gather_buffer_ * static_cast<std::int64_t>(size_of(layout.dtype()));
  gather_buffers_ =
      static_cast<int>(gather_buffer_count(gathered, bytes, sharing.held_units, sharing.prefetch_bytes));
}

std::int64_t ParamsPlan::gradient_shard() const {
  return shards_ && bucket_ring_bytes_ ? shards_->shard_elements() : 0;
}

}  // namespace weft::detail
