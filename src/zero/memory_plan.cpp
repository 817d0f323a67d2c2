#include "weft/zero/memory_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>

#include "weft/core/buffer.hpp"
#include "zero/memory_rows.hpp"
#include "zero/params_plan.hpp"

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

/// Of `count` elements in a row, those that stay on the device: whole cache lines, or all.
std::int64_t on_device(std::int64_t count, double share, std::int64_t line) {
  if (share == 0) return count;
  const double lines = static_cast<double>(count) * (1 - share) / static_cast<double>(line);
  return std::min(count, static_cast<std::int64_t>(std::llround(lines)) * line);
}

/// Elements of optimizer state that lie elsewhere, bucket by bucket.
std::int64_t offloaded(const detail::ParamsPlan& plan, DataType dtype, double share) {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(dtype));
  const auto leaves = [&](std::int64_t count) { return count - on_device(count, share, line); };
  if (!plan.shards()) return leaves(plan.state());
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < plan.shards()->plan().buckets().size(); ++i)
    elements += leaves(plan.shards()->part(i, 0).count);
  return elements;
}

}  // namespace

const char* name(Place place) {
  constexpr std::array names{"device", "host", "nvme"};
  return names[static_cast<std::size_t>(place)];
}

const char* name(Content content) {
  constexpr std::array names{"parameters",       "parameter shard",  "parameter slots", "gradients",
                             "gradient windows", "gradient shard",   "masters",         "first moments",
                             "second moments",   "parameter copies", "gradient tiles"};
  return names[static_cast<std::size_t>(content)];
}

MemoryPlan plan_memory(const ParamLayout& layout, int ranks, const MemoryOptions& options) {
  detail::expect_plannable(layout.dtype(), ranks, options);
  const detail::ParamsPlan plan(layout, sharing_of(ranks, options));
  const bool windowed = plan.gradient_shard() > 0;
  return detail::memory_rows({.whole = plan.whole(),
                              .shard = plan.shard(),
                              .slots = plan.slots() * plan.slot(),
                              .gradients = windowed ? 0 : plan.gradients(),
                              .windows = windowed ? plan.gradients() : 0,
                              .gradient_shard = plan.gradient_shard(),
                              .state = plan.state(),
                              .offloaded = offloaded(plan, layout.dtype(), options.offload.share)},
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
  for (const Place place : {Place::device, Place::host, Place::nvme}) {
    if (place == Place::device || plan.bytes(place) > 0) line("all", place, plan.bytes(place));
  }
  return out;
}

}  // namespace weft::zero
