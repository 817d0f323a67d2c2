#include "weft/zero/memory_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>

#include "weft/core/buffer.hpp"
#include "zero/memory_rows.hpp"
#include "zero/params_plan.hpp"
#include "zero/state_arrays.hpp"
#include "zero/state_frames.hpp"
#include "zero/state_split.hpp"

namespace weft::zero {
namespace {

detail::ParamsSharing sharing_of(int ranks, const MemoryOptions& options) {
  return {.stage = options.stage,
          .ranks = ranks,
          .bucket_bytes = options.bucket_bytes.value_or(detail::usual_bucket_bytes(1)),
          .window_bytes = options.window_bytes,
          .granularity = options.granularity,
          .groups = options.groups,
          .prefetch_bytes = options.prefetch_bytes,
          .held_groups = options.held_groups,
          .whole_below = options.whole_below};
}

/// Buckets of the state, one after the other; where nothing is sharded, all as one.
std::vector<std::int64_t> bounds_of(const detail::ParamsPlan& plan) {
  if (!plan.shards()) return {0, plan.state()};
  std::vector<std::int64_t> bounds{0};
  for (std::size_t i = 0; i < plan.shards()->plan().buckets().size(); ++i)
    bounds.push_back(bounds.back() + plan.shards()->part(i, 0).count);
  return bounds;
}

detail::StateSplit split_of(const detail::ParamsPlan& plan, const detail::StateKind& kind,
                            const OffloadedParts& offload) {
  return {bounds_of(plan), offload.share, kind.is_empty() ? 0 : offload.file_share,
          static_cast<std::int64_t>(Buffer::alignment / size_of(kind.dtype))};
}

}  // namespace

const char* name(Place place) {
  constexpr std::array names{"device", "host", "file"};
  return names[static_cast<std::size_t>(place)];
}

const char* name(Content content) {
  constexpr std::array names{"parameters",       "parameter shard",  "parameter slots", "gradients",
                             "gradient windows", "gradient shard",   "masters",         "first moments",
                             "second moments",   "parameter copies", "gradient tiles",  "state ring"};
  return names[static_cast<std::size_t>(content)];
}

MemoryPlan plan_memory(const ParamLayout& layout, int ranks, const MemoryOptions& options) {
  detail::expect_plannable(layout.dtype(), ranks, options);
  const detail::ParamsPlan plan(layout, sharing_of(ranks, options));
  const auto kind = detail::StateKind::of(layout.dtype(), options.optimizer, options.master);
  const detail::StateSplit split = split_of(plan, kind, options.offload);
  const std::int64_t tile = detail::tile_elements(kind.dtype, options.offload.tile_bytes, split.offloaded());
  const detail::StateFrames frames(split.file_bounds(), tile, kind.element_bytes());
  const bool windowed = plan.gradient_shard() > 0;
  return detail::memory_rows({.whole = plan.whole(),
                              .shard = plan.shard(),
                              .slots = plan.slots() * plan.slot(),
                              .gradients = windowed ? 0 : plan.gradients(),
                              .windows = windowed ? plan.gradients() : 0,
                              .gradient_shard = plan.gradient_shard(),
                              .state = plan.state(),
                              .in_memory = split.in_memory(),
                              .in_file = split.in_file(),
                              .ring_bytes = static_cast<std::int64_t>(frames.ring_bytes())},
                             layout.dtype(), ranks, options);
}

std::int64_t MemoryPlan::bytes(Place place) const {
  std::int64_t sum = 0;
  for (const MemoryRow& row : rows) sum += row.place == place ? row.bytes : 0;
  return sum;
}

std::ostream& operator<<(std::ostream& out, const MemoryPlan& plan) {
  out << "stage " << plan.stage << " on " << plan.ranks << (plan.ranks == 1 ? " rank" : " ranks") << '\n';
  const auto line = [&out](const char* what, Place place, std::int64_t bytes) {
    out << "  " << std::left << std::setw(18) << what << std::setw(8) << name(place) << std::right
        << std::setw(16) << bytes << " bytes\n";
  };
  for (const MemoryRow& row : plan.rows) line(name(row.content), row.place, row.bytes);
  for (const Place place : {Place::device, Place::host, Place::file}) {
    if (place == Place::device || plan.bytes(place) > 0) line("all", place, plan.bytes(place));
  }
  return out;
}

}  // namespace weft::zero
