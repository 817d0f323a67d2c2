#pragma once
// Reads a configuration of DeepSpeed and makes weft's options of it. docs/deepspeed.md says of every key what comes of it.
//
// parse() resolves the file as DeepSpeed 0.19.8 does: defaults, "auto", other and deprecated names of keys, and the batch sizes that are
// left out. options() then says the same in weft's types. What weft would do otherwise is an Error, or one of Config::notices where the
// trained values stay the same: print them once. Both are pure, and need no ranks; `ranks` is their number.
//
//   const deepspeed::Config config = deepspeed::read("ds_config.json", comm.size());
//   for (const std::string& notice : config.notices) log::warn(notice);  // on one rank
//   const deepspeed::Options options = deepspeed::options(config);
//   zero::ShardedParams params(comm, layout_of(model, options.dtype), options.sharding);
//   zero::ShardedOptimizer optimizer(params, *options.optimizer, options.stepping);
//   for (int micro = 0; micro < options.gradient_accumulation_steps; ++micro) ...
//
// Three things are stricter than in DeepSpeed: an unknown key is an error at the top, too; values at the top have the type of their default;
// and "auto" stands only where DeepSpeed itself takes it for the default.
//
// Sizes in bytes, and Unused, are set where the file has their keys. Where it leaves them out, weft's own defaults hold, not DeepSpeed's: its
// bucket of 5e8 elements would leave nothing to overlap.
//
// WRONG: read() with all ranks of a job that cuts its model into a pipeline. `ranks` is the number of ranks that have different data.
// WRONG: read() on every rank of a file that only rank 0 can see. Send its text, and parse() it on every rank.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/dtype.hpp"
#include "weft/zero/optimizer.hpp"
#include "weft/zero/sharded_optimizer.hpp"
#include "weft/zero/sharded_params.hpp"

namespace weft::deepspeed {

/// Where a value comes from.
enum class Origin {
  file,
  automatic,  ///< the file says "auto": DeepSpeed's default
  fallback,   ///< the file says nothing: DeepSpeed's default
  derived,    ///< follows from other values
};

/// A key with its value.
struct Setting {
  std::string key{};    ///< "zero_optimization.stage"
  std::string value{};  ///< as JSON
  Origin origin = Origin::fallback;
  int line = 0;           ///< of the file; 0: it is not there
  std::string written{};  ///< the file's name of the key, where that is another
  std::string in_weft{};  ///< what comes of it
};

struct Config {
  std::string called{};  ///< what errors call the file
  int ranks = 1;
  /// Every key that DeepSpeed 0.19.8 takes, in the order of docs/deepspeed.md. An optional section that is left out is one key, which is null.
  std::vector<Setting> settings{};
  /// One line each: keys without effect in weft, all in one; what weft does in its own way; deprecated names.
  std::vector<std::string> notices{};

  /// nullptr for a key in an optional section that is left out. @throws Error (usage) for a key that DeepSpeed does not have
  const Setting* find(std::string_view key) const;
};

/// @param ranks data-parallel ranks @param called what errors call the text: "ds.json:7: ..."
/// @throws Error (usage) naming line, key, value and what is allowed; for all unknown keys, the nearest one or its section
Config parse(std::string_view text, int ranks, const std::string& called = "the configuration");
/// @throws Error (usage) as parse(), and where the file cannot be read
Config read(const std::string& path, int ranks);

struct Options {
  std::int64_t train_batch_size = 0;
  std::int64_t train_micro_batch_size_per_gpu = 0;
  std::int64_t gradient_accumulation_steps = 1;
  /// The type of parameters and gradients: f32, or what fp16 and bf16 say.
  DataType dtype = DataType::f32;
  zero::ShardedOptions sharding{};  ///< units are yours to add
  zero::ShardedOptimizerOptions stepping{};
  std::optional<zero::Optimizer> optimizer{};  ///< none: the file has none
};

/// @throws Error (usage) naming line, key and value of what weft does not have
Options options(const Config& config);

/// A line for each key: its value, where that comes from, and what it does in weft.
std::string explain(const Config& config);

}  // namespace weft::deepspeed
