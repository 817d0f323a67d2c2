// A byte-level GPT trained data-parallel, as short as it gets with weft: World, connect, Trainer.
//   mpirun -n 2 gpt --text my_book.txt --steps 400

#include <iostream>
#include <optional>
#include <tuple>

#include "common/command_line.hpp"
#include "trainer.hpp"

namespace {

using namespace weft;
namespace po = boost::program_options;

struct Options {
  std::string text = "/usr/share/common-licenses";
  std::string model = "gpt-ref";
  std::string optimizer;
  std::optional<double> learning_rate;
  std::optional<double> final_fraction;
  std::int64_t steps = 400;
  std::uint64_t seed = 1;
};

po::options_description description(Options& options) {
  po::options_description result("Options");
  result.add_options()                                                                             //
      ("text", po::value(&options.text)->value_name("PATH"), "file or folder to learn, as bytes")  //
      ("model", po::value(&options.model)->value_name("NAME"), "gpt-ref, mlp-8x1024 or gpt-tiny")  //
      ("optimizer", po::value(&options.optimizer)->value_name("NAME"),
       "adamw (with the model's settings) or sgd")                                                          //
      ("learning-rate", po::value<double>()->value_name("RATE"), "peak of the schedule (the model's own)")  //
      ("final-fraction", po::value<double>()->value_name("SHARE"),
       "share of the peak that the cosine ends at (the model's own)")                       //
      ("steps", po::value(&options.steps)->value_name("N"), "training steps (400)")         //
      ("seed", po::value(&options.seed)->value_name("N"), "of parameters and batches (1)")  //
      ("help,h", "this text");
  return result;
}

examples::ModelSpec chosen(const Options& options) {
  examples::ModelSpec spec = examples::model_spec(options.model);
  if (options.steps < 1)
    throw Error(ErrorKind::usage, text("--steps ", options.steps, " is not a number of 1 or more"));
  if (options.optimizer == "sgd") {
    spec.optimizer = {.kind = examples::OptimizerKind::sgd, .learning_rate = 0.1, .momentum = 0.9};
  } else if (!options.optimizer.empty() && options.optimizer != "adamw") {
    throw Error(ErrorKind::usage, text("--optimizer ", options.optimizer), "allowed are adamw and sgd");
  }
  for (const auto& [name, given, setting] :
       {std::tuple{"--learning-rate", options.learning_rate, &spec.optimizer.learning_rate},
        std::tuple{"--final-fraction", options.final_fraction, &spec.optimizer.final_fraction}}) {
    if (!given) continue;
    if (!(*given > 0 && *given <= 1))
      throw Error(ErrorKind::usage, text(name, " ", *given, " is not above 0 and at most 1"));
    *setting = *given;
  }
  return spec;
}

/// Every rank evaluates its part of 16 batches; the mean is everybody's.
double held_out_loss(Communicator& comm, examples::Trainer<float>& trainer) {
  const std::int64_t each = trainer.sequences();
  const std::int64_t count = 16 * each;
  double sum = 0;
  std::int64_t batches = 0;
  for (std::int64_t first = comm.rank() * each; first < count; first += comm.size() * each, ++batches) {
    sum += trainer.held_out_loss(first, count);
  }
  std::vector<double> total{sum, static_cast<double>(batches)};
  Stream stream;
  comm.all_reduce(View(std::span(total)), ReduceOp::sum, stream).wait();
  return total[0] / total[1];
}

int run(const std::vector<std::string>& arguments) {
  Options options;
  const auto values = tool::parse(arguments, description(options), "gpt --help");
  if (values.count("help") != 0) {
    std::cout << "gpt [options]\n\nTrains on every rank the launcher provides.\n\n"
              << description(options)
              << "\nExample:\n  mpirun -n 2 gpt --text /usr/share/common-licenses --steps 400\n";
    return 0;
  }
  if (values.count("learning-rate") != 0) options.learning_rate = values["learning-rate"].as<double>();
  if (values.count("final-fraction") != 0) options.final_fraction = values["final-fraction"].as<double>();
  const examples::ModelSpec spec = chosen(options);
  const examples::Text source = examples::Text::read(options.text, spec.sequence_bytes());

  FlightRecorder::dump_on_sigusr2();
  Communicator comm = connect(World::from_environment());
  examples::Trainer<float> trainer(
      comm, spec, source,
      {.share = {comm.rank(), comm.size()}, .steps = options.steps, .seed = options.seed});
  const std::int64_t between = std::max<std::int64_t>(1, options.steps / 10);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    trainer.step();
    if ((step + 1) % between != 0 && step + 1 != options.steps) continue;
    const double loss = held_out_loss(comm, trainer);
    if (comm.rank() == 0) {
      std::cout << text("step ", step + 1, " of ", options.steps, ": held-out loss ", loss,
                        " nats per byte\n")
                << std::flush;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("gpt", argc, argv, run);
}
