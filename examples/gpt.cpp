// A byte-level GPT trained data-parallel or through a pipeline, as short as it gets with weft: World,
// connect, Trainer.
//   mpirun -n 2 gpt --text my_book.txt --steps 400
//   mpirun -n 4 gpt --pipeline auto --pipeline-devices 2

#include <iostream>
#include <optional>

#include "common/command_line.hpp"
#include "common/progress.hpp"
#include "common/usage_once.hpp"
#include "weft-scaling/gpt/math/blas_advice.hpp"
#include "weft-scaling/gpt/pipeline/pipeline_trainer.hpp"
#include "weft-scaling/gpt/trainer/checkpoint_options.hpp"
#include "weft-scaling/gpt/trainer/recipe_options.hpp"

namespace {

using namespace weft;
namespace po = boost::program_options;

struct Options {
  std::string text = "/usr/share/common-licenses";
  std::string model = "gpt-ref";
  std::string pipeline;
  int pipeline_devices = 0;
  examples::RecipeChanges recipe;
  std::int64_t steps = 400;
  std::uint64_t seed = 1;
  int batches = 0;
  examples::CheckpointOptions checkpoint;
  bool quiet = false;
};

po::options_description description(Options& options) {
  po::options_description result("Options");
  result.add_options()                                                                                //
      ("text", po::value(&options.text)->value_name("PATH"), "file or folder to train on, as bytes")  //
      ("model", po::value(&options.model)->value_name("NAME"), "gpt-ref, mlp-8x1024 or gpt-tiny")     //
      ("pipeline", po::value(&options.pipeline)->value_name("NAME"),
       "cut the model into stages and execute them by this schedule: 1f1b, zb-h1, zb-v, ..., or auto")  //
      ("pipeline-devices", po::value(&options.pipeline_devices)->value_name("N"),
       "devices of one pipeline (all ranks); with fewer there are several pipelines with different data")  //
      ("steps", po::value(&options.steps)->value_name("N"), "training steps (400)")                        //
      ("seed", po::value(&options.seed)->value_name("N"), "seed of parameters and batches (1)")            //
      ("batches", po::value(&options.batches)->value_name("N"),
       "batches of a step, which all ranks share out; a run keeps them when it goes on with other ranks (one "
       "for "
       "each rank at its first start)")  //
      ("quiet,q", "no progress, and of the losses the last one alone");
  examples::add_options(result, options.recipe);
  examples::add_options(result, options.checkpoint);
  tool::add_common(result);
  return result;
}

/// Reads the options that are no plain values, and refuses those that have no effect.
void take(const po::variables_map& values, Options& options) {
  options.quiet = values.count("quiet") != 0;
  if (values.count("batches") != 0 && options.batches < 1)
    throw Error(ErrorKind::usage, text("--batches ", options.batches, " is not a number of 1 or more"));
  examples::check(values, options.checkpoint);
  if (options.pipeline.empty()) tool::refuse_ignored(values, {"pipeline-devices"}, "--pipeline is not given");
  examples::check(values, options.recipe);
}

examples::ModelSpec chosen(const Options& options) {
  examples::ModelSpec spec = examples::model_spec(options.model);
  if (options.steps < 1)
    throw Error(ErrorKind::usage, text("--steps ", options.steps, " is not a number of 1 or more"));
  spec.optimizer = examples::changed(spec.optimizer, options.recipe);
  return spec;
}

/// The mean over all ranks.
double mean(Communicator& comm, double mine) {
  Stream stream;
  comm.all_reduce(View(std::span(&mine, 1)), ReduceOp::sum, stream).wait();
  return mine / comm.size();
}

/// What is said while it trains.
struct Told {
  std::int64_t steps;
  bool quiet;
  tool::Progress& progress;
};

/// Trains, and prints the held-out loss ten times, or once: over 16 batches of the model's size, shared out among the
/// ranks, so that it does not depend on how many these are. @returns the exit status: 75 where a notice to end came and the training is to be started again
template <class AnyTrainer>
int train(Communicator& comm, AnyTrainer& trainer, const examples::Share& share, const Told& told, int batch,
          examples::Checkpoints& checkpoints) {
  const std::int64_t steps = told.steps;
  const std::int64_t each = trainer.sequences();
  const auto parts = static_cast<int>((std::int64_t{16} * batch + each - 1) / each);
  const examples::Batches mine = examples::batches_of(share, parts);
  const std::int64_t between = told.quiet ? steps : std::max<std::int64_t>(1, steps / 10);
  const std::int64_t done = checkpoints.resume(trainer);
  const auto say = [&](const std::string& line) {
    if (comm.rank() == 0) told.progress.aside([&] { std::cout << line << std::flush; });
  };
  if (done > 0 && !told.quiet) say(text("goes on after step ", done, " of ", steps, '\n'));
  told.progress.begin("steps", steps - done);
  for (std::int64_t step = done; step < steps; ++step) {
    trainer.step();
    told.progress.advance();
    if (!checkpoints.after_step(trainer, step + 1, step + 1 == steps)) {
      say(text("told to end: saved after step ", step + 1, " of ", steps, "; start it again to go on\n"));
      return exit_code(ErrorKind::peer_lost);
    }
    if ((step + 1) % between != 0 && step + 1 != steps) continue;
    double sum = 0;
    for (int i = 0; i < mine.count; ++i) sum += trainer.held_out_loss((mine.first + i) * each, parts * each);
    const double loss = mean(comm, sum * share.ranks / parts);
    say(text("step ", step + 1, " of ", steps, ": held-out loss ", loss, " nats per byte\n"));
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  const auto values =
      tool::alike_on_ranks([&] { return tool::parse(arguments, description(options), "gpt --help"); });
  if (values.count("help") != 0) {
    std::cout << "gpt [options]\n\nTrains on every rank the launcher provides.\n\n"
              << description(options)
              << "\nExamples:\n  mpirun -n 2 gpt --text /usr/share/common-licenses --steps 400\n"
              << "  mpirun -n 4 gpt --pipeline zb-h1 --pipeline-devices 2\n"
              << "  weft-launch -n 2 gpt --checkpoint checkpoints --checkpoint-every 50\n";
    return 0;
  }
  const examples::ModelSpec spec = tool::alike_on_ranks([&] {
    take(values, options);
    examples::ModelSpec all = chosen(options);
    if (options.steps <= all.optimizer.warmup_steps + 1)
      tool::refuse_ignored(values, {"final-fraction"},
                           text("the rate does not fall within --steps ", options.steps));
    return all;
  });
  tool::Progress progress("gpt", tool::Quiet(options.quiet || !tool::is_first_rank()));
  progress.prepare("reading " + options.text);
  const examples::Text source = examples::Text::read(options.text, spec.sequence_bytes());

  FlightRecorder::dump_on_sigusr2();
  examples::PipelineOptions pipelined{.schedule = options.pipeline,
                                      .devices = options.pipeline_devices,
                                      .batches = options.batches,
                                      .steps = options.steps,
                                      .seed = options.seed};
  const auto check = [&](int ranks) {
    if (!options.pipeline.empty()) (void)examples::planned_pipeline(spec, ranks, pipelined);
  };
  // Wrong arguments are refused here, before any rank waits for another.
  const std::optional<int> launched = tool::launched_ranks();
  tool::alike_on_ranks([&] {
    if (launched) check(*launched);
  });
  progress.prepare(tool::connecting_ranks());
  const World world = World::from_environment();
  tool::alike_on_ranks([&] {
    if (launched != world.size()) check(world.size());
  });
  Communicator comm = connect(world);
  const std::string advice = comm.device().is_host() ? examples::blas_advice() : "";
  if (comm.rank() == 0 && !advice.empty())
    progress.aside([&] { std::cerr << text("gpt: ", advice, "\n") << std::flush; });
  progress.prepare("the model");
  const Told told{options.steps, options.quiet, progress};
  options.checkpoint.run = examples::run_of(options.model, options.seed, options.steps);
  examples::Checkpoints checkpoints(comm, options.checkpoint);
  const int batches = pipelined.batches = checkpoints.batches(options.batches, comm.size());
  if (options.pipeline.empty()) {
    const examples::Share share{comm.rank(), comm.size()};
    examples::Trainer<float> trainer(
        comm, spec, source,
        {.share = share, .batches = batches, .steps = options.steps, .seed = options.seed});
    return train(comm, trainer, share, told, spec.sequences, checkpoints);
  } else {
    examples::PipelineTrainer<float> trainer(comm, spec, source, pipelined);
    const pipeline::Schedule& schedule = trainer.plan().schedule;
    if (comm.rank() == 0 && !options.quiet) {
      progress.aside([&] {
        std::cout << text(comm.size() / schedule.devices(), " pipeline(s) of ", schedule.devices(),
                          " device(s), ", schedule.stages(), " stages, ", schedule.microbatches,
                          " microbatches, by ", schedule.name, '\n')
                  << std::flush;
      });
    }
    return train(comm, trainer, trainer.share(), told, spec.sequences, checkpoints);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("gpt", argc, argv, weft::tool::on_ranks(run));
}
