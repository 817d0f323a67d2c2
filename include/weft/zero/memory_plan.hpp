#pragma once
// Bytes that a training state takes on each rank, and where they lie, before anything is allocated: a plain
// value made by pure functions.
//
// `plan_memory` follows a layout through the very plan that ShardedParams and ShardedOptimizer make their
// memory from: what lies on the device is their held_bytes() + state_bytes(), to the byte, and the same on
// every rank. `estimate_memory` is the closed form of docs/memory.md, which needs no layout but a few sizes;
// it leaves out padding and is within 1 % + 64 KiB of the plan for models of the usual shapes.
//
//   const zero::MemoryPlan plan = zero::plan_memory(layout, 8, {.stage = 3, .groups = groups});
//   std::cout << plan;
//   if (plan.bytes(zero::Place::device) > free_bytes) ...
//
// Counted is what weft keeps: parameters, gradients, optimizer state, and their windows and slots.
// Activations, what hooks keep (residuals of PowerSGD), fixed_parts, and what libraries take for themselves
// are not; nor is what rounding a file to whole blocks takes, less than 4 KiB a bucket or tile.
//
// WRONG: a plan with groups left out for a training in stage 3 that names them: all parameters are then one
// group, and its slot as large as the model.

#include <cstdint>
#include <optional>
#include <ostream>
#include <vector>

#include "weft/gradient/param_layout.hpp"
#include "weft/zero/optimizer.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::zero {

enum class Place { device, host, file };
const char* name(Place place);

/// What bytes are of.
enum class Content {
  parameters,        ///< whole, for good
  parameter_shard,   ///< stage 3: this rank's parts
  parameter_slots,   ///< stage 3: groups that are gathered
  gradients,         ///< whole
  gradient_windows,  ///< stages 2 and 3: of buckets that are under way
  gradient_shard,    ///< stages 2 and 3: this rank's parts of the means
  masters,           ///< of 16-bit parameters, exactly
  first_moments,     ///< or velocities
  second_moments,
  parameter_copies,  ///< of what is offloaded: what the host updates, on its way to the device
  gradient_tiles,    ///< of what is offloaded: staging on the host
  state_ring,        ///< of what lies in a file: frames that are read, updated and written
};
const char* name(Content content);

/// What does not lie on the device, in plain numbers.
struct OffloadedParts {
  double share = 0;         ///< of optimizer state, 0 to 1; of every bucket, to the next cache line
  double file_share = 0;    ///< of that, in a file; 0 to 1
  bool parameters = false;  ///< stage 3: this rank's shard lies on the host
  bool gradients = false;   ///< stages 2 and 3: so do its parts of the means
  std::size_t tile_bytes = std::size_t{4} << 20;  ///< of gradients that come down at a time; there are two
};

/// What memory depends on of ShardedOptions, ReducerOptions and ShardedOptimizerOptions; named as there.
struct MemoryOptions {
  int stage = 2;
  std::optional<std::size_t> bucket_bytes{};  ///< default: 1 MiB, as within a node
  std::optional<std::size_t> window_bytes{};  ///< default: an eighth of the gradients
  std::int64_t granularity = 1;               ///< of the hook
  std::vector<ParamId> groups{};              ///< of the layout; the estimate takes ModelSize's
  std::optional<std::size_t> prefetch_bytes{};
  int held_groups = 1;
  std::int64_t whole_below = 0;  ///< not in the estimate
  Optimizer optimizer = AdamW{};
  Master master = Master::f32;
  OffloadedParts offload{};
};

struct MemoryRow {
  Content content;
  Place place;
  std::int64_t bytes;  ///< on one rank; more than 0
  friend bool operator==(const MemoryRow&, const MemoryRow&) = default;
};

struct MemoryPlan {
  int stage = 0;
  int ranks = 1;
  std::vector<MemoryRow> rows{};  ///< in the order of Content; of one content, the device first

  std::int64_t bytes(Place place) const;
  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
  /// A line per row, then the totals.
  friend std::ostream& operator<<(std::ostream& out, const MemoryPlan& plan);
};

/// @throws Error (usage) for what ShardedParams and ShardedOptimizer refuse, and for what cannot be offloaded
MemoryPlan plan_memory(const ParamLayout& layout, int ranks, const MemoryOptions& options);

/// What the closed form knows of a model.
struct ModelSize {
  std::int64_t parameters = 0;  ///< elements
  DataType dtype = DataType::f32;
  std::int64_t largest_parameter = 0;  ///< elements of the largest tensor
  std::int64_t largest_group = 0;  ///< elements of what is gathered at once; all, where groups are not named
  std::int64_t groups = 1;
  friend bool operator==(const ModelSize&, const ModelSize&) = default;

  /// @param firsts as ShardedOptions::groups
  static ModelSize of(const ParamLayout& layout, const std::vector<ParamId>& firsts);
  /// The same model with another number of parameters, all tensors and groups larger or smaller alike.
  ModelSize scaled_to(std::int64_t count) const;
};

/// The closed form. @throws Error (usage) as plan_memory()
MemoryPlan estimate_memory(const ModelSize& model, int ranks, const MemoryOptions& options);

/// Parameters of the largest model of these proportions that the closed form has fit on a device; 0: none.
std::int64_t largest_model(const ModelSize& model, int ranks, const MemoryOptions& options,
                           std::int64_t device_bytes);
/// The least number of ranks on whose devices it fits, up to 65536. None: on no number.
std::optional<int> least_ranks(const ModelSize& model, const MemoryOptions& options,
                               std::int64_t device_bytes);

}  // namespace weft::zero
