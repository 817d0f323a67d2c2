// The closed form of a memory plan (docs/memory.md), and searches by it: the largest model that fits and the
// least number of ranks, each a binary search of at most 48 estimates.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "core/base/round_up.hpp"
#include "weft/core/error.hpp"
#include "weft/zero/memory_plan.hpp"
#include "zero/memory/memory_rows.hpp"
#include "zero/offload/state_file.hpp"
#include "zero/offload/state_layout.hpp"
#include "zero/plan/params_plan.hpp"

namespace weft::zero {
namespace {

constexpr int most_ranks = 65536;
constexpr std::int64_t most_parameters = std::int64_t{1} << 48;

void expect_sizes(const ModelSize& model) {
  const bool fits = model.parameters > 0 && model.units > 0 && model.largest_parameter > 0 &&
                    model.largest_parameter <= model.largest_unit && model.largest_unit <= model.parameters;
  if (fits) return;
  throw Error(
      ErrorKind::usage,
      text("a model of ", model.parameters, " parameters in ", model.units, " units, the largest unit of ",
           model.largest_unit, ", the largest parameter of ", model.largest_parameter),
      "a parameter is at most a unit, and a unit at most all");
}

/// Elements of the largest bucket: buckets hold whole parameters and end where a unit does.
std::int64_t bucket_elements(const ModelSize& model, const MemoryOptions& options) {
  const std::size_t bytes = options.bucket_bytes.value_or(detail::usual_bucket_bytes(1));
  const auto bucket = static_cast<std::int64_t>(bytes / size_of(model.dtype));
  return std::max(std::min(bucket, model.largest_unit), model.largest_parameter);
}

std::int64_t ring_elements(const ModelSize& model, const MemoryOptions& options) {
  const std::size_t element = size_of(model.dtype);
  const auto elements = [&](std::size_t bytes) { return static_cast<std::int64_t>(bytes / element); };
  const std::size_t usual = detail::usual_ring_bytes(static_cast<std::size_t>(model.parameters) * element);
  return std::max(std::min(elements(options.bucket_ring_bytes.value_or(usual)), model.parameters),
                  bucket_elements(model, options));
}

/// Bytes of the ring: four frames, or fewer where the file has fewer.
/// @param cell elements of the largest part of a bucket
std::int64_t ring_bytes(std::int64_t in_file, std::int64_t cell, const detail::StateKind& kind,
                        const OffloadedParts& offload) {
  const std::int64_t of_cell = std::llround(static_cast<double>(cell) * offload.share * offload.file_share);
  const std::int64_t frame =
      detail::tile_elements(kind.dtype, offload.tile_bytes, std::min(in_file, of_cell));
  if (frame == 0) return 0;
  const std::vector<std::int64_t> bounds{0, std::min(in_file, 4 * frame)};
  return static_cast<std::int64_t>(detail::StateFrames(bounds, frame, kind.element_bytes()).ring_bytes());
}

bool fits(const ModelSize& model, int ranks, const MemoryOptions& options, std::int64_t device_bytes) {
  return estimate_memory(model, ranks, options).bytes(Place::device) <= device_bytes;
}

/// Binary search between a number that fits and one that does not: the last one that fits.
template <class Number, class Fits>
Number last_fitting(Number good, Number bad, const Fits& fits) {
  while (std::abs(bad - good) > 1) {
    const Number middle = std::midpoint(good, bad);
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace

ModelSize ModelSize::of(const ParamLayout& layout, const std::vector<ParamId>& firsts) {
  detail::expect_units(layout, firsts);
  ModelSize size{.dtype = layout.dtype(), .units = std::max<std::int64_t>(1, std::ssize(firsts))};
  std::int64_t unit = 0;
  for (int i = 0; i < layout.parameters(); ++i) {
    const ParamId id{i};
    if (std::ranges::find(firsts, id) != firsts.end()) unit = 0;
    unit += layout.count(id);
    size.parameters += layout.count(id);
    size.largest_parameter = std::max(size.largest_parameter, layout.count(id));
    size.largest_unit = std::max(size.largest_unit, unit);
  }
  return size;
}

ModelSize ModelSize::scaled_to(std::int64_t count) const {
  const double factor = static_cast<double>(count) / static_cast<double>(parameters);
  const auto scaled = [&](std::int64_t elements) {
    return std::clamp<std::int64_t>(std::llround(static_cast<double>(elements) * factor), 1, count);
  };
  ModelSize other = *this;
  other.parameters = count;
  other.largest_parameter = scaled(largest_parameter);
  other.largest_unit = std::max(other.largest_parameter, scaled(largest_unit));
  return other;
}

MemoryPlan estimate_memory(const ModelSize& model, int ranks, const MemoryOptions& options) {
  detail::expect_plannable(model.dtype, ranks, options);
  expect_sizes(model);
  const Stage stage = zero::stage(options.stage);
  const auto element = static_cast<std::int64_t>(size_of(model.dtype));
  const std::int64_t all = model.parameters;
  const std::int64_t part = detail::ceil_div(all, ranks);
  detail::HeldElements elements;
  elements.state = stage.optimizer == Placement::sharded ? part : all;
  if (stage.gradients == Placement::sharded) {
    elements.bucket_ring = ring_elements(model, options);
    elements.gradient_shard = part;
  } else {
    elements.gradients = all;
  }
  if (stage.parameters == Placement::sharded) {
    elements.shard = part;
    elements.gather_buffers =
        model.largest_unit * detail::gather_buffer_count(model.units, model.largest_unit * element,
                                                         options.held_units, options.prefetch_bytes);
  } else {
    elements.whole = all;
  }
  if (std::holds_alternative<Muon>(options.optimizer)) {
    elements.owned_matrices = part;
    elements.products = (model.dtype == DataType::f32 ? 4 : 5) * model.largest_parameter;  // of a square
  }
  const OffloadedParts& offload = options.offload;
  const auto kind = detail::StateKind::of(model.dtype, options.optimizer, options.master);
  const std::int64_t offloaded = std::llround(static_cast<double>(elements.state) * offload.share);
  if (!kind.is_empty()) elements.in_file = std::llround(static_cast<double>(offloaded) * offload.file_share);
  elements.in_memory = offloaded - elements.in_file;
  const bool whole = stage.optimizer == Placement::replicated;
  elements.state_ring_bytes =
      ring_bytes(elements.in_file, whole ? all : detail::ceil_div(bucket_elements(model, options), ranks),
                 kind, offload);
  return detail::memory_rows(elements, model.dtype, ranks, options);
}

std::int64_t largest_model(const ModelSize& model, int ranks, const MemoryOptions& options,
                           std::int64_t device_bytes) {
  return last_fitting(std::int64_t{0}, most_parameters, [&](std::int64_t parameters) {
    return fits(model.scaled_to(parameters), ranks, options, device_bytes);
  });
}

std::optional<int> least_ranks(const ModelSize& model, const MemoryOptions& options,
                               std::int64_t device_bytes) {
  if (!fits(model, most_ranks, options, device_bytes)) return std::nullopt;
  return last_fitting(most_ranks, 0, [&](int ranks) { return fits(model, ranks, options, device_bytes); });
}

}  // namespace weft::zero
