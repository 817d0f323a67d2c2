#pragma once
// Strategies by name: how gradients are reduced, and which part of the training state is sharded.

#include <optional>
#include <string>

#include "options.hpp"
#include "weft/local/local_steps.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::scaling {

/// Every rank trains alone, and takes an outer step every so many steps: as LocalStepsOptions.
struct LocalChoice {
  std::int64_t every = 1;
  int fragments = 1;
  std::int64_t delay = 0;
  double mixing = 0;
  OuterOptimizer outer{};
};

/// A name, taken apart.
struct Strategy {
  /// The schedule of a pipeline; none if the model stays in one piece.
  std::optional<std::string> schedule{};
  int stage = 0;                       ///< of ZeRO
  std::optional<std::string> codec{};  ///< a name for hook_named(); none if gradients are sent as they are
  std::optional<LocalChoice>
      local{};  ///< of local:H and local:H/P; the codec is then that of its differences
  zero::Offload offload{};
  bool deepspeed = false;  ///< all is said by Options::deepspeed_options
};

/// The strategy of --deepspeed.
inline constexpr const char* from_deepspeed = "deepspeed";
/// The schedule, or the code, that weft is to choose itself.
inline constexpr const char* chosen = "auto";

/// @throws Error (usage) for another first word
Strategy parsed(const std::string& strategy);
/// The names, for error messages and help.
std::string allowed_strategies();
/// @throws Error (usage) saying what is allowed, and what is nearest
void check_strategy(const std::string& strategy);
bool is_pipeline(const std::string& strategy);
bool is_local(const std::string& strategy);
/// Whether it has a codec that starts after the first steps: --start-step.
bool starts_late(const std::string& strategy);
/// Whether its gradients, or differences, are sent by a codec.
bool is_coded(const std::string& strategy);
/// Options for a new trainer. The hook is null if gradients are sent as they are.
zero::ShardedOptions sharding_of(const Strategy& strategy, const Options& options);
/// For a new trainer of local:H, whose own sharding sends nothing.
LocalStepsOptions local_options_of(const Strategy& strategy, const Options& options);
zero::Offload offload_of(const Strategy& strategy, const Options& options);
/// @throws Error (usage) if the model, the ranks or the microbatches do not suit a named pipeline
void check_pipelines(const Options& options, int ranks);
/// The first step whose time is measured, for all strategies. Before it memory is touched for the first time,
/// codecs with error feedback have not begun, and auto has not chosen.
std::int64_t first_counted(const Options& options);
/// @throws Error (usage) if auto chooses so late that no step would be measured
void check_steps(const Options& options);

}  // namespace weft::scaling
