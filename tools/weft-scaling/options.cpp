#include "options.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <sstream>
#include <string_view>

#include "common/command_line.hpp"
#include "core/base/number.hpp"
#include "serving.hpp"
#include "strategy.hpp"
#include "weft-scaling/gpt/trainer/checkpoint_options.hpp"
#include "weft-scaling/gpt/trainer/recipe_options.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

namespace po = boost::program_options;

po::options_description description(Options& options, std::string& strategies) {
  std::string models;
  for (const auto& spec : examples::model_specs()) models += (models.empty() ? "" : ", ") + spec.name;
  po::options_description result("Options", 110);
  result.add_options()  //
      ("text", po::value(&options.text)->value_name("PATH"),
       "file or folder to train on (/usr/share/common-licenses); the last tenth is held out")              //
      ("model", po::value(&options.model)->value_name("NAME"), ("workload (gpt-ref): " + models).c_str())  //
      ("strategies", po::value(&strategies)->value_name("LIST"),
       ("strategies, separated by commas (nocomm,ddp): " + allowed_strategies()).c_str())  //
      ("start-step", po::value<std::int64_t>()->value_name("N"),
       "first step of codecs with error feedback (5, or a quarter of the steps); before it gradients are "
       "reduced uncompressed")  //
      ("deepspeed", po::value<std::string>()->value_name("FILE"),
       "instead of strategies: train as this configuration of DeepSpeed says, and without communication")  //
      ("explain", "print each value of --deepspeed, where it comes from and what it does; train nothing")  //
      ("steps", po::value(&options.steps)->value_name("N"), "training steps of each strategy (40)")        //
      ("seed", po::value(&options.seed)->value_name("N"),
       "seed of the parameters and of the order of the text (1)")  //
      ("bucket-bytes", po::value<std::size_t>()->value_name("N"),
       "size of a gradient bucket (planned from the first steps if a thread carries communication, else 1 "
       "MiB)")  //
      ("pipeline-devices", po::value<int>()->value_name("N"),
       "devices of one pipeline (all ranks); with fewer there are several pipelines with different data")  //
      ("chunks", po::value<int>()->value_name("N"),
       "stages of each device of a pipeline (as the schedule needs)")  //
      ("microbatch", po::value(&options.microbatch)->value_name("N"),
       "sequences of a pipeline's microbatch (1)")                                                          //
      ("ranks", po::value<int>()->value_name("N"), "refuse to start unless the launcher provides N ranks")  //
      ("sweep", po::value<std::string>()->value_name("LIST"),
       "instead of strategies: ddp on these numbers of ranks, weak and strong scaling, such as 1,2,4")  //
      ("device", po::value<std::string>()->value_name("NAME"),
       "where ranks compute: host, or cuda for a CUDA device each (WEFT_DEVICE, else host)")  //
      ("require", po::value<std::string>()->value_name("NAME"),
       "exit with 1 unless data is sent over this: gdr, ib (between nodes), nvlink (within), shm")  //
      ("json", po::value<std::string>()->value_name("FILE"),
       "write the figures to FILE, - for standard output")  //
      ("trace", po::value<std::string>()->value_name("FILE"),
       "write what all ranks compute and send, on one clock, to FILE, for ui.perfetto.dev")  //
      ("wire-rate", po::value<double>()->value_name("GB/S"),
       "rate of weft-bench all_reduce (its algbw): also print a lower bound of the step")  //
      ("report", po::value<std::string>()->value_name("FILE"),
       "draw the figures as one HTML page without scripts, to FILE")  //
      ("compare", po::value<std::string>()->value_name("FILE"),
       "compare the steps of each strategy with those of an earlier run, whose --json wrote FILE")  //
      ("metrics", po::value<int>()->value_name("PORT"),
       "serve figures for Prometheus while it trains: the first rank of a node on PORT, the next on PORT "
       "+ 1")  //
      ("metrics-bind", po::value<std::string>()->value_name("ADDRESS"),
       "address of this machine to serve them on (127.0.0.1); 0.0.0.0 for all")  //
      ("quiet,q", "no progress and no losses while it trains: the figures alone");
  examples::add_options(result, options.recipe);
  examples::add_options(result, options.checkpoint);
  tool::add_common(result);
  return result;
}

/// "1,2,4": ascending; the others are compared with the first.
std::vector<int> rank_counts(const std::string& list) {
  std::vector<int> counts;
  for (const std::string& part : tool::split(list)) {
    const auto count = detail::number_of<int>(part);
    if (!count || *count <= (counts.empty() ? 0 : counts.back()))
      throw Error(ErrorKind::usage, text("--sweep ", list, " is not a rising list of numbers of ranks"));
    counts.push_back(*count);
  }
  if (counts.empty())
    throw Error(ErrorKind::usage, "--sweep is empty", "give numbers of ranks, such as 1,2,4");
  return counts;
}

void check(const Options& options) {
  if (options.steps < 1 || options.steps > 1'000'000) {
    throw Error(ErrorKind::usage, text("--steps ", options.steps, " is not a number from 1 to 1000000"));
  }
  if (options.wire_rate && !(*options.wire_rate > 0 && std::isfinite(*options.wire_rate)))
    throw Error(ErrorKind::usage, text("--wire-rate ", *options.wire_rate, " is not a number above 0"));
  if (options.start_step && (*options.start_step < 0 || *options.start_step >= options.steps)) {
    throw Error(ErrorKind::usage, text("--start-step ", *options.start_step,
                                       " is not a number from 0 to below --steps ", options.steps));
  }
  if (options.bucket_bytes == 0)
    throw Error(ErrorKind::usage, "--bucket-bytes 0 is not a number of 1 or more");
  if (options.ranks && *options.ranks < 1) {
    throw Error(ErrorKind::usage, text("--ranks ", *options.ranks, " is not a number of 1 or more"));
  }
  const auto positive = [](const char* name, std::optional<int> value) {
    if (value && *value < 1)
      throw Error(ErrorKind::usage, text(name, ' ', *value, " is not a number of 1 or more"));
  };
  positive("--pipeline-devices", options.pipeline_devices);
  positive("--chunks", options.chunks);
  positive("--microbatch", options.microbatch);
  if (options.device && *options.device != "host" && *options.device != "cuda") {
    throw Error(ErrorKind::usage, text("--device ", *options.device, " is neither host nor cuda"));
  }
  if (options.strategies.empty())
    throw Error(ErrorKind::usage, "--strategies is empty", "allowed are " + allowed_strategies());
  for (const std::string& strategy : options.strategies) {
    if (strategy != from_deepspeed || !options.deepspeed) check_strategy(strategy);
    if (std::ranges::count(options.strategies, strategy) > 1) {
      throw Error(ErrorKind::usage, text("--strategies names '", strategy, "' twice"));
    }
  }
  check_steps(options);
  if (options.metrics && (*options.metrics < 1 || *options.metrics > 65535))
    throw Error(ErrorKind::usage, text("--metrics ", *options.metrics, " is not a number from 1 to 65535"));
  if (options.metrics) expect_serving();
  if (options.report == "-")
    throw Error(ErrorKind::usage, "--report - is no file", "name one, such as --report scaling.html");
  (void)spec_of(options);
}

bool any_strategy(const Options& options, const std::function<bool(const std::string&)>& is_one) {
  return std::ranges::any_of(options.strategies, is_one);
}

/// Checkpoints are of one training.
void check_checkpoint(const po::variables_map& values, Options& options) {
  examples::check(values, options.checkpoint);
  if (options.checkpoint.folder.empty()) return;
  if (!options.sweep.empty())
    throw Error(ErrorKind::usage, "--checkpoint with --sweep, which trains anew for each number of ranks",
                "leave one of them out");
  if (options.strategies.size() > 1)
    throw Error(
        ErrorKind::usage,
        text("--checkpoint with ", options.strategies.size(), " strategies, each of which is a training"),
        "name one, such as --strategies ddp");
  if (options.strategies.front() == "nocomm")
    throw Error(ErrorKind::usage, "--checkpoint with nocomm, whose ranks have parameters of their own",
                "name another strategy, such as --strategies ddp");
  if (is_local(options.strategies.front()))
    throw Error(
        ErrorKind::usage,
        text("--checkpoint with ", options.strategies.front(), ", whose ranks have optimizers of their own"),
        "name another strategy, such as --strategies ddp");
  options.checkpoint.run = examples::run_of(options.model, options.seed, options.steps);
}

/// Options that the others leave nothing to do.
void check_effects(const po::variables_map& values, const Options& options) {
  if (options.steps <= spec_of(options).optimizer.warmup_steps + 1)
    tool::refuse_ignored(values, {"final-fraction"},
                         text("the rate does not fall within --steps ", options.steps));
  examples::check(values, options.recipe);
  if (!options.metrics) tool::refuse_ignored(values, {"metrics-bind"}, "--metrics is not given");
  if (!options.deepspeed) tool::refuse_ignored(values, {"explain"}, "--deepspeed is not given");
  if (options.explain)
    tool::refuse_ignored(values,
                         {"text", "model", "steps", "seed", "learning-rate", "final-fraction", "warmup",
                          "beta1", "bucket-bytes", "device", "require", "json", "trace", "wire-rate",
                          "report", "compare", "metrics", "metrics-bind", "quiet"},
                         "--explain trains nothing");
  if (options.deepspeed)
    tool::refuse_ignored(values, {"strategies", "sweep"},
                         text("--deepspeed ", *options.deepspeed, " says how to train"));
  if (!options.sweep.empty()) {
    tool::refuse_ignored(
        values,
        {"strategies", "compare", "wire-rate", "start-step", "pipeline-devices", "chunks", "microbatch"},
        "a sweep trains ddp alone, and no strategies to compare");
    return;
  }
  if (!any_strategy(options, is_pipeline))
    tool::refuse_ignored(values, {"pipeline-devices", "chunks", "microbatch"}, "no strategy is a pipeline");
  if (!any_strategy(options, starts_late))
    tool::refuse_ignored(
        values, {"start-step"},
        "no strategy has a codec that starts late: casts to fp16 and bf16 send from the first step on");
  if (!any_strategy(options, [](const std::string& one) { return one != "nocomm" && !is_local(one); }))
    tool::refuse_ignored(values, {"bucket-bytes"}, "nocomm and local:H have no buckets of gradients");
  if (!any_strategy(options, [](const std::string& one) { return one == "nocomm"; }) ||
      !any_strategy(options, [](const std::string& one) {
        return one != "nocomm" && !is_pipeline(one) && !is_local(one);
      }))
    tool::refuse_ignored(values, {"wire-rate"},
                         "the bound needs nocomm and a data-parallel strategy beside it");
}

}  // namespace

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  std::string strategies;
  const po::variables_map values =
      tool::parse(arguments, description(options, strategies), "weft-scaling --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (values.count("strategies") != 0) options.strategies = tool::split(strategies);
  if (values.count("deepspeed") != 0) {
    options.deepspeed = values["deepspeed"].as<std::string>();
    if (values.count("strategies") == 0) options.strategies = {"nocomm", from_deepspeed};
  }
  options.explain = values.count("explain") != 0;
  if (values.count("start-step") != 0) options.start_step = values["start-step"].as<std::int64_t>();
  if (values.count("bucket-bytes") != 0) options.bucket_bytes = values["bucket-bytes"].as<std::size_t>();
  if (values.count("ranks") != 0) options.ranks = values["ranks"].as<int>();
  if (values.count("pipeline-devices") != 0) options.pipeline_devices = values["pipeline-devices"].as<int>();
  if (values.count("chunks") != 0) options.chunks = values["chunks"].as<int>();
  if (values.count("sweep") != 0) options.sweep = rank_counts(values["sweep"].as<std::string>());
  if (values.count("device") != 0) options.device = values["device"].as<std::string>();
  if (values.count("require") != 0) options.require = requirement_named(values["require"].as<std::string>());
  if (values.count("json") != 0) options.json = values["json"].as<std::string>();
  if (values.count("wire-rate") != 0) options.wire_rate = values["wire-rate"].as<double>();
  if (values.count("trace") != 0) options.trace = values["trace"].as<std::string>();
  if (values.count("report") != 0) options.report = values["report"].as<std::string>();
  if (values.count("compare") != 0) options.compare = values["compare"].as<std::string>();
  if (values.count("metrics") != 0) options.metrics = values["metrics"].as<int>();
  if (values.count("metrics-bind") != 0) options.metrics_bind = values["metrics-bind"].as<std::string>();
  options.quiet = values.count("quiet") != 0;
  check(options);
  check_checkpoint(values, options);
  check_effects(values, options);
  return options;
}

examples::ModelSpec spec_of(const Options& options) {
  examples::ModelSpec spec = examples::model_spec(options.model);
  spec.optimizer = examples::changed(spec.optimizer, options.recipe);
  if (!options.deepspeed_options) return spec;
  spec.sequences = static_cast<int>(options.deepspeed_options->train_micro_batch_size_per_gpu);
  if (options.deepspeed_options->optimizer) {  // without a scheduler DeepSpeed's rate is constant
    spec.optimizer.warmup_steps = options.recipe.warmup_steps.value_or(0);
    spec.optimizer.final_fraction = options.recipe.final_fraction.value_or(1);
  }
  return spec;
}

std::string help() {
  Options options;
  std::string strategies;
  std::ostringstream out;
  out << "weft-scaling [options]\n\n"
         "Trains a model on every rank the launcher provides, under each strategy, and prints speed, "
         "exposed\n"
         "time, bytes and loss. Strategies take turns of a few steps, so that a change of the machine's "
         "speed\n"
         "affects all of them.\n\n"
      << description(options, strategies)
      << "\nExamples:\n"
         "  mpirun -n 2 weft-scaling --strategies nocomm,ddp --json figures.json\n"
         "  weft-launch -n 2 weft-scaling --model mlp-8x1024\n"
         "  mpirun -n 4 weft-scaling --strategies nocomm,ddp,ddp+bf16,ddp+powersgd:4\n"
         "  mpirun -n 4 weft-scaling --strategies nocomm,ddp,auto\n"
         "  mpirun -n 4 weft-scaling --strategies ddp,pipeline:1f1b,pipeline:auto --pipeline-devices 2\n"
         "  mpirun -n 4 weft-scaling --sweep 1,2,4\n"
         "  mpirun -n 2 weft-scaling --deepspeed ds_config.json\n"
         "  mpirun -n 8 weft-scaling --device cuda --require gdr\n"
         "  mpirun -n 4 weft-scaling --report now.html --compare monday.json\n"
         "  mpirun -n 2 weft-scaling --strategies ddp --steps 1000 --metrics 9400\n"
         "  mpirun -n 2 weft-scaling --strategies zero2 --steps 1000 --checkpoint saved --checkpoint-every "
         "100\n\n"
         "Exit status: 0 done, 1 another transport than required, 42 wrong usage or input, 75 a rank was "
         "lost\n"
         "or did not start, or SIGUSR1 ended it after a checkpoint, 70 a fault of the system, 130 and 143 "
         "ended by Ctrl-C and SIGTERM: the figures\n"
         "so far are written.\n";
  return std::move(out).str();
}

}  // namespace weft::scaling
