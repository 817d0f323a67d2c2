#pragma once
// Strategies by name: how gradients are reduced, and which part of the training state is sharded.

#include <memory>
#include <string>

#include "gpt/pipeline/pipeline_trainer.hpp"
#include "options.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::scaling {

/// The names, for error messages and help.
std::string allowed_strategies();
/// @throws Error (usage) saying what is allowed, and what is nearest
void check_strategy(const std::string& strategy);
/// Whether its gradients are sent by a codec.
bool is_coded(const std::string& strategy);
/// Options for a new trainer. The hook is null if gradients are sent as they are.
zero::ShardedOptions sharding_of(const std::string& strategy, const Options& options);
zero::ShardedOptimizerOptions stepping_of(const std::string& strategy);
/// Empty if the model stays in one piece.
std::optional<examples::PipelineOptions> pipeline_of(const std::string& strategy, const Options& options);
/// @throws Error (usage) if the model, the ranks or the microbatches do not suit a named pipeline
void check_pipelines(const Options& options, int ranks);
/// The first step whose time is measured, for all strategies. Before it memory is touched for the first time,
/// codecs with error feedback have not begun, and auto has not chosen.
std::int64_t first_counted(const Options& options);
/// @throws Error (usage) if auto chooses so late that no step would be measured
void check_steps(const Options& options);

}  // namespace weft::scaling
