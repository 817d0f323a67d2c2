#include "zero/memory_rows.hpp"

#include <algorithm>
#include <array>

#include "weft/core/buffer.hpp"
#include "weft/core/error.hpp"
#include "zero/params_plan.hpp"
#include "zero/state_arrays.hpp"
#include "zero/step_factors.hpp"

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
  expect_held_groups(options.held_groups);
  if (options.window_bytes && stage.optimizer == Placement::replicated)
    throw Error(ErrorKind::usage, "window_bytes in stage 0", "gradients lie in windows in stages 2 and 3");
  check(options.optimizer);
  expect_shares(options.offload);
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
  add(Content::parameter_slots, Place::device, elements.slots, element);
  add(Content::gradients, Place::device, elements.gradients, element);
  add(Content::gradient_windows, Place::device, elements.windows, element);
  add(Content::gradient_shard, offload.gradients ? Place::host : Place::device, elements.gradient_shard,
      element);
  const auto bytes = StateKind::of(dtype, options.optimizer, options.master).element_bytes();
  constexpr std::array contents{Content::masters, Content::first_moments, Content::second_moments};
  for (std::size_t i = 0; i < contents.size(); ++i) {
    add(contents[i], Place::device, elements.state - elements.offloaded(), bytes[i]);
    add(contents[i], Place::host, elements.in_memory, bytes[i]);
    add(contents[i], Place::file, elements.in_file, bytes[i]);
  }
  if (!offload.parameters) add(Content::parameter_copies, Place::host, elements.offloaded(), element);
  if (!offload.gradients)
    add(Content::gradient_tiles, Place::host,
        2 * tile_elements(dtype, offload.tile_bytes, elements.offloaded()), element);
  add(Content::state_ring, Place::host, elements.ring_bytes, 1);
  return plan;
}

}  // namespace weft::detail
