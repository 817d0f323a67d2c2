#pragma once
// --checkpoint and what goes with it, on the command lines of the trainers.

#include "common/command_line.hpp"
#include "weft-scaling/gpt/trainer/checkpoints.hpp"

namespace weft::examples {

inline void add_options(boost::program_options::options_description& all, CheckpointOptions& options) {
  using boost::program_options::value;
  all.add_options()  //
      ("checkpoint", value(&options.folder)->value_name("FOLDER"),
       "go on from the newest checkpoint in it, and save there behind the training: at the end, on SIGUSR1 "
       "(and "
       "end), and when it has a file checkpoint-now")                                          //
      ("checkpoint-every", value(&options.every)->value_name("N"), "and every so many steps")  //
      ("checkpoint-keep", value(&options.keep_last)->value_name("N"), "how many stay; 0: all (2)");
}

/// @throws Error (usage) for numbers that are none, and for options without --checkpoint
inline void check(const boost::program_options::variables_map& values, const CheckpointOptions& options) {
  if (options.folder.empty())
    tool::refuse_ignored(values, {"checkpoint-every", "checkpoint-keep"}, "--checkpoint is not given");
  if (values.count("checkpoint-every") != 0 && options.every < 1)
    throw Error(ErrorKind::usage,
                text("--checkpoint-every ", options.every, " is not a number of 1 or more"));
  if (options.keep_last < 0)
    throw Error(ErrorKind::usage,
                text("--checkpoint-keep ", options.keep_last, " is not a number of 0 or more"));
}

/// What must be the same for a training to go on.
inline std::string run_of(const std::string& model, std::uint64_t seed, std::int64_t steps) {
  return text(model, ", seed ", seed, ", ", steps, " steps");
}

}  // namespace weft::examples
