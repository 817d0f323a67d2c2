#pragma once
// A configuration of DeepSpeed in place of --strategies: what the trainer takes of it, and what it does not have.

#include "options.hpp"
#include "weft-scaling/gpt/trainer/trainer.hpp"

namespace weft::scaling {

/// Reads the file of --deepspeed, if there is one. A rank may be alone with a file that it cannot read.
void read_deepspeed(Options& options);
/// The table of --explain, for the ranks of --ranks, of the launcher, or one.
std::string explain_deepspeed(const Options& options, std::optional<int> launched);
/// The file's options for so many ranks, if there is one. @throws Error (usage) for what this trainer does not have, and where an option of the
/// command line sets the same
void resolve_deepspeed(Options& options, int ranks);

/// Options of every trainer, with the file's rule, clipping and micro-steps where there is one: the same without communication.
examples::TrainerOptions trainer_options(const Options& options);

}  // namespace weft::scaling
