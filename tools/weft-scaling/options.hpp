#pragma once
// The command line of weft-scaling, as values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport.hpp"
#include "weft-scaling/gpt/trainer/checkpoints.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"
#include "weft/deepspeed/config.hpp"

namespace weft::scaling {

struct Options {
  std::string text = "/usr/share/common-licenses";
  std::string model = "gpt-ref";
  std::vector<std::string> strategies{"nocomm", "ddp"};
  std::int64_t steps = 40;
  std::optional<std::int64_t> start_step;  ///< first step of codecs with error feedback
  std::uint64_t seed = 1;
  examples::RecipeChanges recipe;           ///< changes of the model's recipe
  std::optional<std::size_t> bucket_bytes;  ///< default: the reducer's
  std::optional<int> ranks;                 ///< must be what the launcher provides
  std::optional<int> pipeline_devices;      ///< devices of a pipeline; default: all ranks
  std::optional<int> chunks;                ///< stages of a device; default: as the schedule needs
  int microbatch = 1;                       ///< sequences of a microbatch
  std::vector<int> sweep;                   ///< rank counts, rising; empty: strategies instead
  std::optional<std::string> device;        ///< host or cuda; default: WEFT_DEVICE
  Requirement require = Requirement::none;  ///< which transport must run
  std::optional<std::string> json;          ///< file, or - for standard output
  std::optional<std::string> trace;         ///< file for all ranks' timelines
  std::optional<double> wire_rate;          ///< GB/s of gradients, for the bound of a step
  std::optional<std::string> report;        ///< file for the page
  std::optional<std::string> compare;       ///< file that --json wrote in an earlier run
  std::optional<int> metrics;               ///< port of the first rank of a node
  std::optional<std::string> metrics_bind;  ///< address; default: loopback
  std::optional<std::string> deepspeed;     ///< a configuration of DeepSpeed, in place of strategies
  std::string deepspeed_text;               ///< what is in it (read_deepspeed)
  std::optional<deepspeed::Options> deepspeed_options;  ///< what comes of it (resolve_deepspeed)
  std::vector<std::string> deepspeed_notices;
  bool explain = false;                    ///< print what the file resolves to, and end
  examples::CheckpointOptions checkpoint;  ///< of the only strategy
  int batches = 0;                         ///< of a step, over all ranks: those of the checkpoint (measure)
  bool quiet = false;
  bool help = false;
};

/// @throws Error (usage) naming the argument, its value and what is allowed
Options parse(const std::vector<std::string>& arguments);
std::string help();
/// The model with the recipe of the options, and the micro batch of a configuration of DeepSpeed.
examples::ModelSpec spec_of(const Options& options);

}  // namespace weft::scaling
