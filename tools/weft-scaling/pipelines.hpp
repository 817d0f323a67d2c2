#pragma once
// Strategies that cut the model into stages: pipelines.cpp, or pipelines_left_out.cpp in a program that is built
// without them (WEFT_SCALING_PARTS).

#include <memory>
#include <string>

#include "strategy.hpp"
#include "training.hpp"

namespace weft::scaling {

/// @throws Error (usage) for a schedule that does not exist
void check_schedule(const std::string& schedule);
/// @throws Error (usage) if the model, the ranks or the microbatches do not suit the schedule
void check_pipeline(const Strategy& strategy, const Options& options, int ranks);
/// make_training() of a strategy with a schedule. Collective.
std::unique_ptr<Training> make_pipeline_training(const Strategy& strategy, const Communicator& comm,
                                                 const examples::ModelSpec& spec, const Options& options,
                                                 const examples::Text& text, std::shared_ptr<Trace> trace);

}  // namespace weft::scaling
