#include "deepspeed.hpp"

#include "common/usage_once.hpp"
#include "core/files/input_file.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

constexpr std::int64_t most_of_a_step = 65536;  // sequences of a micro-step, and micro-steps

/// "ds.json:7", or the file where it does not have the key.
std::string place_of(const deepspeed::Config& config, const char* key) {
  const deepspeed::Setting* const setting = config.find(key);
  return setting != nullptr && setting->line > 0 ? text(config.called, ":", setting->line) : config.called;
}

bool is_in_file(const deepspeed::Config& config, const char* key) {
  const deepspeed::Setting* const setting = config.find(key);
  return setting != nullptr && setting->origin == deepspeed::Origin::file;
}

/// An option that the file's key sets, too.
void check_once(const deepspeed::Config& config, bool is_given, const char* option, const char* key) {
  if (is_given && is_in_file(config, key))
    throw Error(ErrorKind::usage, text(option, " and ", key, " at ", place_of(config, key), " set the same"),
                "leave out one of them");
}

void check_trainer(const deepspeed::Config& config, const deepspeed::Options& resolved) {
  if (resolved.dtype != DataType::f32) {
    const char* const key = resolved.dtype == DataType::f16 ? "fp16.enabled" : "bf16.enabled";
    throw Error(ErrorKind::usage,
                text(place_of(config, key), ": ", key, " is true, and weft-scaling trains in f32"),
                "set it to false; communication_data_type makes gradients travel in 16 bits");
  }
  for (const char* const key : {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    const std::int64_t count = std::string_view(key) == "gradient_accumulation_steps"
                                   ? resolved.gradient_accumulation_steps
                                   : resolved.train_micro_batch_size_per_gpu;
    if (count > most_of_a_step)
      throw Error(ErrorKind::usage, text(place_of(config, key), ": ", key, " is ", count),
                  text("weft-scaling takes at most ", most_of_a_step));
  }
  if (config.find("scheduler.type") != nullptr)
    throw Error(ErrorKind::usage,
                text(place_of(config, "scheduler.type"), ": weft-scaling has no scheduler of DeepSpeed"),
                "leave the section out: the rate is constant, or give --warmup and --final-fraction");
}

}  // namespace

void read_deepspeed(Options& options) {
  // A pipe has its bytes for one reader.
  const auto source =
      tool::launched_ranks().value_or(1) == 1 ? detail::Source::file_or_pipe : detail::Source::file;
  if (options.deepspeed)
    options.deepspeed_text =
        detail::read_input(*options.deepspeed, "--deepspeed " + *options.deepspeed, {.source = source});
}

std::string explain_deepspeed(const Options& options, std::optional<int> launched) {
  const int ranks = options.ranks.value_or(launched.value_or(1));
  return deepspeed::explain(deepspeed::parse(options.deepspeed_text, ranks, *options.deepspeed));
}

void resolve_deepspeed(Options& options, int ranks) {
  if (!options.deepspeed) return;
  const deepspeed::Config config = deepspeed::parse(options.deepspeed_text, ranks, *options.deepspeed);
  deepspeed::Options resolved = deepspeed::options(config);
  check_trainer(config, resolved);
  check_once(config, options.bucket_bytes.has_value(), "--bucket-bytes",
             "zero_optimization.reduce_bucket_size");
  check_once(config, options.recipe.learning_rate.has_value(), "--learning-rate", "optimizer.type");
  check_once(config, options.recipe.beta1.has_value(), "--beta1", "optimizer.type");
  if (options.bucket_bytes) resolved.sharding.bucket_bytes = options.bucket_bytes;
  options.deepspeed_notices = config.notices;
  options.deepspeed_options = std::move(resolved);
}

examples::TrainerOptions trainer_options(const Options& options) {
  examples::TrainerOptions result{.share = {}, .steps = options.steps, .seed = options.seed};
  if (!options.deepspeed_options) return result;
  const deepspeed::Options& file = *options.deepspeed_options;
  result.micro_steps = static_cast<int>(file.gradient_accumulation_steps);
  result.stepping.clip_norm = file.stepping.clip_norm;
  result.stepping.non_finite = file.stepping.non_finite;
  result.rule = file.optimizer;
  return result;
}

}  // namespace weft::scaling
