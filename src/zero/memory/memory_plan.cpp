// The exact memory plan. Steps: make the plan of parameters, gradients and shards (params_plan.hpp); split
// the optimizer's state between device, host memory and file (state_layout.hpp); lay out the file's frames
// (state_file.hpp); then turn elements into rows of bytes.

#include "weft/zero/memory_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>

#include "weft/core/buffer.hpp"
#include "zero/memory/memory_rows.hpp"
#include "zero/offload/state_file.hpp"
#include "zero/offload/state_layout.hpp"
#include "zero/plan/params_plan.hpp"
#include "zero/tensors/matrix_owners.hpp"

namespace weft::zero {
namespace {

detail::ParamsSharing sharing_of(int ranks, const MemoryOptions& options) {
  return {.stage = options.stage,
          .ranks = ranks,
          .bucket_bytes = options.bucket_bytes.value_or(detail::usual_bucket_bytes(1)),
          .bucket_ring_bytes = options.bucket_ring_bytes,
          .granularity = options.granularity,
          .units = options.units,
          .prefetch_bytes = options.prefetch_bytes,
          .held_units = options.held_units,
          .whole_below = options.whole_below};
}

/// Where the buckets' parts begin in the state; if nothing is sharded, one cell of all elements.
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
  constexpr std::array names{"parameters",     "parameter shard", "gather buffers", "gradients",
                             "bucket ring",    "gradient shard",  "masters",        "first moments",
                             "second moments", "owned matrices",  "products",       "parameter copies",
                             "gradient tiles", "state ring"};
  return names[static_cast<std::size_t>(content)];
}

MemoryPlan plan_memory(const ParamLayout& layout, int ranks, const MemoryOptions& options) {
  detail::expect_plannable(layout.dtype(), ranks, options);
  const detail::ParamsPlan plan(layout, sharing_of(ranks, options));
  const auto kind = detail::StateKind::of(layout.dtype(), options.optimizer, options.master);
  const detail::StateSplit split = split_of(plan, kind, options.offload);
  const std::int64_t tile = detail::tile_elements(kind.dtype, options.offload.tile_bytes, split.offloaded());
  const detail::StateFrames frames(split.file_bounds(), tile, kind.element_bytes());
  detail::MatrixOwners owners;
  if (std::holds_alternative<Muon>(options.optimizer))
    owners = detail::MatrixOwners(layout, detail::hidden_matrices(layout), ranks);
  const bool has_ring = plan.gradient_shard() > 0;
  return detail::memory_rows({.whole = plan.whole(),
                              .shard = plan.shard(),
                              .gather_buffers = plan.gather_buffers() * plan.gather_buffer(),
                              .gradients = has_ring ? 0 : plan.gradients(),
                              .bucket_ring = has_ring ? plan.gradients() : 0,
                              .gradient_shard = plan.gradient_shard(),
                              .state = plan.state(),
                              .in_memory = split.in_memory(),
                              .in_file = split.in_file(),
                              .owned_matrices = owners.owned_elements(),
                              .products = owners.workspace_elements(),
                              .state_ring_bytes = static_cast<std::int64_t>(frames.ring_bytes())},
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

namespace weft::detail {

namespace {

using zero::Content;
using zero::Place;
using zero::Placement;

void expect_shares(const zero::OffloadedParts& offload) {
  if (!(offload.share >= 0 && offload.share <= 1))
    throw Error(ErrorKind::usage, text("a share of ", offload.share, " is offloaded"), "give 0 to 1");
  if (!(offload.file_share >= 0 && offload.file_share <= 1))
    throw Error(ErrorKind::usage,
                text("of what is offloaded, a share of ", offload.file_share, " lies in a file"),
                "give 0 to 1");
}

}  // namespace

void expect_plannable(DataType dtype, int ranks, const zero::MemoryOptions& options) {
  const zero::Stage stage = zero::stage(options.stage);
  if (ranks < 1) throw Error(ErrorKind::usage, text("a plan for ", ranks, " ranks"), "give 1 or more");
  if (!is_floating(dtype))
    throw Error(ErrorKind::usage, text("parameters of type ", dtype), "parameters are floating-point");
  if (options.granularity < 1)
    throw Error(ErrorKind::usage, text("a granularity of ", options.granularity), "give 1 or more");
  if (options.bucket_bytes == 0) throw Error(ErrorKind::usage, "bucket_bytes is 0", "give at least 1");
  expect_held_units(options.held_units);
  if (options.bucket_ring_bytes && stage.optimizer == Placement::replicated)
    throw Error(ErrorKind::usage, "bucket_ring_bytes in stage 0",
                "gradients lie in a bucket ring in stages 2 and 3");
  check(options.optimizer);
  expect_shares(options.offload);
  if (needs_whole_tensors(options.optimizer) && (options.offload.share > 0 || options.offload.gradients))
    throw Error(ErrorKind::usage, "offloaded state or gradients of a rule that needs whole tensors",
                "give AdamW, Adam or SGD, or offload nothing");
  expect_offload_fits(options.stage, options.offload.parameters, options.offload.gradients);
}

zero::MemoryPlan memory_rows(const HeldElements& elements, DataType dtype, int ranks,
                             const zero::MemoryOptions& options) {
  const zero::OffloadedParts& offload = options.offload;
  zero::MemoryPlan plan{.stage = options.stage, .ranks = ranks};
  const auto add = [&plan](Content content, Place place, std::int64_t count, std::size_t element) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(element);
    if (bytes > 0) plan.rows.push_back({content, place, bytes});
  };
  const std::size_t element = size_of(dtype);
  add(Content::parameters, Place::device, elements.whole, element);
  add(Content::parameter_shard, offload.parameters ? Place::host : Place::device, elements.shard, element);
  add(Content::gather_buffers, Place::device, elements.gather_buffers, element);
  add(Content::gradients, Place::device, elements.gradients, element);
  add(Content::bucket_ring, Place::device, elements.bucket_ring, element);
  add(Content::gradient_shard, offload.gradients ? Place::host : Place::device, elements.gradient_shard,
      element);
  const auto bytes = StateKind::of(dtype, options.optimizer, options.master).element_bytes();
  constexpr std::array contents{Content::masters, Content::first_moments, Content::second_moments};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    add(contents[i], Place::device, elements.state - elements.offloaded(), bytes[i]);
    add(contents[i], Place::host, elements.in_memory, bytes[i]);
    add(contents[i], Place::file, elements.in_file, bytes[i]);
  }
  add(Content::owned_matrices, Place::device, elements.owned_matrices, element);
  add(Content::products, Place::device, elements.products, sizeof(float));
  if (!offload.parameters) add(Content::parameter_copies, Place::host, elements.offloaded(), element);
  if (!offload.gradients)
    add(Content::gradient_tiles, Place::host,
        2 * tile_elements(dtype, offload.tile_bytes, elements.offloaded()), element);
  add(Content::state_ring, Place::host, elements.state_ring_bytes, 1);
  return plan;
}

}  // namespace weft::detail
