// One of several ranks that train a model where WEFT_DEVICE says, under a strategy; rank 0 prints a line of JSON: losses, a
// hash of all parameters, the median step.
//   gpu_train MODEL TEXT STEPS STRATEGY [TRACE]    STEPS: 10, or 10/20, the first 10 of 20; STRATEGY: ddp, zero1, zero2, zero3, each also with +offload and a code
//                                                  (ddp+powersgd:4), or pipeline:1f1b and the like

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>

#include "weft-scaling/gpt/pipeline/pipeline_trainer.hpp"
#include "weft/compression/hook_named.hpp"

namespace {

using namespace weft;

std::uint64_t hash(const std::vector<float>& values) {  // FNV-1a
  std::uint64_t result = 0xcbf29ce484222325ULL;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(float); ++i)
    result = (result ^ bytes[i]) * 0x100000001b3ULL;
  return result;
}

struct Strategy {
  std::string name;
  std::string schedule{};  ///< of a pipeline
  zero::ShardedOptions sharding{.stage = 0};
  bool offload = false;
};

Strategy parsed(const std::string& name) {
  Strategy result{.name = name};
  if (name.starts_with("pipeline:")) {
    result.schedule = name.substr(name.find(':') + 1);
    return result;
  }
  std::istringstream words(name);
  std::string word;
  std::getline(words, word, '+');
  if (word.starts_with("zero")) {
    result.sharding.stage = std::stoi(word.substr(4));
  } else if (word != "ddp") {
    throw Error(ErrorKind::usage, "no strategy: " + name, "ddp, zero1, zero2, zero3 or pipeline:NAME");
  }
  while (std::getline(words, word, '+')) {
    if (word == "offload") {
      result.offload = true;
    } else {
      result.sharding.hook = hook_named(word, 0);
    }
  }
  return result;
}

struct Steps {
  std::int64_t done = 0;
  std::int64_t planned = 0;  ///< for which the learning rate is scheduled

  static Steps parsed(const std::string& text) {
    const auto slash = text.find('/');
    return {std::stoll(text), std::stoll(slash == std::string::npos ? text : text.substr(slash + 1))};
  }
};

struct Trained {
  std::vector<double> losses{};
  std::vector<double> seconds{};
  std::vector<float> parameters{};
  double exposed = 0;
};

/// @param loss of the step that was just done
template <class Trainer, class Loss>
Trained train(Trainer& trainer, std::int64_t steps, Loss loss) {
  Trained result;
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    result.losses.push_back(loss(trainer));
    result.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  result.parameters = trainer.parameters();
  result.exposed = trainer.exposed_seconds();
  return result;
}

Trained train(const Communicator& comm, const examples::ModelSpec& spec, const std::string& path, Steps steps,
              const Strategy& strategy, const std::shared_ptr<Trace>& trace) {
  const auto text = examples::Text::read(path, spec.sequence_bytes());
  if (!strategy.schedule.empty()) {
    examples::PipelineTrainer<float> trainer(
        comm, spec, text, {.schedule = strategy.schedule, .steps = steps.planned, .trace = trace});
    return train(trainer, steps.done, [](auto& one) {
      one.step();
      return one.training_loss();
    });
  }
  examples::Trainer<float> trainer(comm, spec, text,
                                   {.share = {comm.rank(), comm.size()},
                                    .steps = steps.planned,
                                    .sharding = strategy.sharding,
                                    .stepping = {.offload = strategy.offload},
                                    .trace = trace});
  return train(trainer, steps.done, [](auto& one) { return one.step(); });
}

void run(const std::string& model, const std::string& path, Steps steps, const Strategy& strategy,
         const char* trace_file) {
  const auto trace = trace_file == nullptr ? nullptr : std::make_shared<Trace>();
  Communicator comm = connect(World::from_environment(), {.trace = trace});
  Trained trained = train(comm, examples::model_spec(model), path, steps, strategy, trace);
  comm.all_reduce(View(std::span(trained.losses)), ReduceOp::avg, Stream()).wait();  // of all ranks' shares
  if (comm.rank() != 0) return;
  if (trace) trace->write(trace_file);
  std::ranges::sort(trained.seconds);
  std::cout.precision(9);
  std::cout << "{\"figure\": \"" << model << "\", \"strategy\": \"" << strategy.name << "\", \"device\": \""
            << comm.device() << "\", \"ranks\": " << comm.size()
            << ", \"step_ms\": " << trained.seconds[trained.seconds.size() / 2] * 1e3
            << ", \"exposed_ms\": " << trained.exposed * 1e3 / static_cast<double>(steps.done)
            << ", \"hash\": \"" << std::hex << hash(trained.parameters) << std::dec << "\", \"losses\": [";
  for (std::size_t i = 0; i < trained.losses.size(); ++i)
    std::cout << (i == 0 ? "" : ", ") << trained.losses[i];
  std::cout << "]}\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: gpu_train MODEL TEXT STEPS STRATEGY [TRACE]\n";
    return 42;
  }
  try {
    run(argv[1], argv[2], Steps::parsed(argv[3]), parsed(argv[4]), argc > 5 ? argv[5] : nullptr);
  } catch (const weft::Error& error) {
    std::cerr << error.what() << '\n';
    return weft::exit_code(error.kind());
  }
}
