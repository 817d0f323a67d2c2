#pragma once
// How many bytes the training state takes on each rank, and where they lie, before anything is allocated. The
// plan is a plain value made by pure functions.
//
// `plan_memory` uses the same plan that ShardedParams and ShardedOptimizer allocate by: the bytes on the
// device are their held_bytes() + state_bytes() exactly, and the same on every rank. `estimate_memory` is the
// closed form of docs/memory.md, which needs a few sizes and no layout. It leaves out padding and is within
// 1 % + 64 KiB of the plan for models of the usual shapes.
//
//   const zero::MemoryPlan plan = zero::plan_memory(layout, 8, {.stage = 3, .units = units});
//   std::cout << plan;
//   if (plan.bytes(zero::Place::device) > free_bytes) ...
//
// The plan counts what weft holds: parameters, gradients and optimizer state, the bucket ring that gradients
// pass through and the gather buffers that parameters are gathered into. It does not count activations, state
// of hooks (such as residuals of PowerSGD), tree_hook(), memory of other libraries, or the rounding of a file
// to whole blocks, which is less than 4 KiB for each bucket or tile.
//
// WRONG: leaving `units` out of the plan for a training in stage 3 that names them. All parameters are then
// one unit, and its gather buffer is as large as the model.

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

/// What the bytes hold.
enum class Content {
  parameters,       ///< replicated parameters
  parameter_shard,  ///< stage 3: this rank's shard
  gather_buffers,   ///< stage 3: all-gather buffers
  gradients,        ///< replicated gradients
  bucket_ring,      ///< stages 2 and 3: buckets that backward writes or that are being reduced
  gradient_shard,   ///< stages 2 and 3: this rank's shard of the averaged gradients
  masters,          ///< master copies of 16-bit parameters
  first_moments,    ///< or the momentum of SGD
  second_moments,
  owned_matrices,    ///< Muon: matrices that this rank orthogonalizes
  products,          ///< Muon: what their products work in
  parameter_copies,  ///< offload: parameters that the host updates and copies to the device
  gradient_tiles,    ///< offload: staging buffers for gradients on the host
  state_ring,        ///< offload to a file: frames that are read, updated and written
};
const char* name(Content content);

/// What is offloaded from the device, in plain numbers.
struct OffloadedParts {
  double share = 0;         ///< share of the optimizer state, 0 to 1, of every bucket in whole cache lines
  double file_share = 0;    ///< share of the offloaded state that lies in a file, 0 to 1
  bool parameters = false;  ///< stage 3: this rank's shard of the parameters lies on the host
  bool gradients = false;   ///< stages 2 and 3: this rank's shard of the gradients lies on the host
  std::size_t tile_bytes = std::size_t{4} << 20;  ///< bytes of gradients copied at a time, twice
};

/// The fields of ShardedOptions, ReducerOptions and ShardedOptimizerOptions that memory depends on, under the
/// same names.
struct MemoryOptions {
  int stage = 2;
  std::optional<std::size_t> bucket_bytes{};       ///< default: 1 MiB, as within a node
  std::optional<std::size_t> bucket_ring_bytes{};  ///< default: an eighth of the gradients
  std::int64_t granularity = 1;                    ///< CommHook::granularity
  std::vector<ParamId> units{};  ///< first parameters; the estimate takes ModelSize's instead
  std::optional<std::size_t> prefetch_bytes{};
  int held_units = 1;
  std::int64_t whole_below = 0;   ///< the estimate ignores it
  Optimizer optimizer = AdamW{};  ///< without groups; the estimate takes all parameters for Muon's
  Master master = Master::f32;
  OffloadedParts offload{};
};

struct MemoryRow {
  Content content;
  Place place;
  std::int64_t bytes;  ///< on one rank; above 0
  friend bool operator==(const MemoryRow&, const MemoryRow&) = default;
};

struct MemoryPlan {
  int stage = 0;
  int ranks = 1;
  std::vector<MemoryRow> rows{};  ///< in the order of Content; within one content, the device first

  std::int64_t bytes(Place place) const;
  friend bool operator==(const MemoryPlan&, const MemoryPlan&) = default;
  /// Prints a line for each row, then the totals.
  friend std::ostream& operator<<(std::ostream& out, const MemoryPlan& plan);
};

/// @throws Error (usage) for options that ShardedParams and ShardedOptimizer refuse, and for an offload that
/// the stage does not allow
MemoryPlan plan_memory(const ParamLayout& layout, int ranks, const MemoryOptions& options);

/// The sizes of a model that the closed form needs.
struct ModelSize {
  std::int64_t parameters = 0;  ///< elements
  DataType dtype = DataType::f32;
  std::int64_t largest_parameter = 0;  ///< elements of the largest tensor
  std::int64_t largest_unit = 0;  ///< elements of the largest unit; all elements where no units are named
  std::int64_t units = 1;
  friend bool operator==(const ModelSize&, const ModelSize&) = default;

  /// @param firsts as ShardedOptions::units
  static ModelSize of(const ParamLayout& layout, const std::vector<ParamId>& firsts);
  /// The same model with another number of parameters: all tensors and units grow or shrink in proportion.
  ModelSize scaled_to(std::int64_t count) const;
};

/// The closed form. @throws Error (usage) as plan_memory()
MemoryPlan estimate_memory(const ModelSize& model, int ranks, const MemoryOptions& options);

/// The number of parameters of the largest model of these proportions that fits on a device by the closed
/// form; 0 where none fits.
std::int64_t largest_model(const ModelSize& model, int ranks, const MemoryOptions& options,
                           std::int64_t device_bytes);
/// The least number of ranks, up to 65536, on whose devices the model fits; nullopt where no number is
/// enough.
std::optional<int> least_ranks(const ModelSize& model, const MemoryOptions& options,
                               std::int64_t device_bytes);

}  // namespace weft::zero
