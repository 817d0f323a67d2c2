#pragma once
// Strategies by name: how a step's gradients come together, and what of the training state is shared out.

#include <memory>
#include <string>

#include "options.hpp"
#include "pipeline_trainer.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::scaling {

/// For people.
std::string allowed_strategies();
/// @throws Error (usage) saying what is allowed, and what is nearest
void check_strategy(const std::string& strategy);
/// Whether its gradients travel in a code.
bool is_coded(const std::string& strategy);
/// For a new trainer each. Its hook is null where gradients travel as they are.
zero::ShardedOptions sharding_of(const std::string& strategy, const Options& options);
zero::ShardedOptimizerOptions stepping_of(const std::string& strategy);
/// None where the model stays in one piece.
std::optional<examples::PipelineOptions> pipeline_of(const std::string& strategy, const Options& options);
/// @throws Error (usage) where the model, the ranks or the microbatches do not suit a pipeline that was named
void check_pipelines(const Options& options, int ranks);
/// The first step that counts for times, of all strategies: before it memory is touched for the first time,
/// codes that keep what they lose have not begun, and auto has not chosen.
std::int64_t first_counted(const Options& options);
/// @throws Error (usage) where no step would count because auto chooses late
void check_steps(const Options& options);

}  // namespace weft::scaling
