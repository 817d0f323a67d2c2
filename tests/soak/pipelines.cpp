// Trains gpt-ref with SGD in pipelines of 2 devices: under every named schedule and a synthesized one, with
// recomputation, and with 2 data-parallel ranks per device under every stage of ZeRO. Parameters must be
// bitwise the same under all of them, and within 1e-6 (L2 norm of the difference over that of the parameters)
// of the model trained in one piece on the same sequences.
//
//   soak_pipelines STEPS [MODEL [PATH]]    ends with 0 when all are; PATH is the text

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "weft-scaling/gpt/pipeline/pipeline_trainer.hpp"
#include "weft/pipeline/schedules.hpp"

namespace {

using namespace weft;

struct Variant {
  std::string name;
  int ranks = 2;
  examples::PipelineOptions options{};
};

std::vector<Variant> variants() {
  std::vector<Variant> result;
  const auto add = [&](std::string name, int ranks, examples::PipelineOptions options) {
    options.devices = 2;
    result.push_back({std::move(name), ranks, std::move(options)});
  };
  for (const pipeline::NamedSchedule& one : pipeline::named_schedules())
    add(std::string(one.name), 2, {.schedule = std::string(one.name)});
  add("auto", 2, {.schedule = "auto"});
  add("1f1b, recomputed", 2, {.schedule = "1f1b", .recompute = true});
  add("zb-v, recomputed", 2, {.schedule = "zb-v", .recompute = true});
  add("interleaved, 3 chunks", 2, {.schedule = "interleaved", .chunks = 3});
  add("1f1b x 2", 4, {.schedule = "1f1b"});
  add("zb-h1 x 2, stage 1", 4, {.schedule = "zb-h1", .sharding = {.stage = 1}});
  add("zb-h1 x 2, stage 2", 4, {.schedule = "zb-h1", .sharding = {.stage = 2}});
  add("zb-v x 2, stage 2", 4, {.schedule = "zb-v", .sharding = {.stage = 2}});
  add("zb-h1 x 2, stage 3", 4, {.schedule = "zb-h1", .sharding = {.stage = 3}});
  add("auto x 2, stage 3, recomputed", 4, {.schedule = "auto", .recompute = true, .sharding = {.stage = 3}});
  return result;
}

std::vector<float> train(const Variant& variant, const examples::ModelSpec& spec, const examples::Text& text,
                         std::int64_t steps) {
  std::vector<float> result;
  std::mutex mutex;
  run_as_threads(variant.ranks, [&](Communicator comm) {
    examples::PipelineOptions options = variant.options;
    options.steps = steps;
    examples::PipelineTrainer<float> trainer(comm, spec, text, options);
    for (std::int64_t step = 0; step < steps; ++step) trainer.step();
    std::vector<float> mine = trainer.parameters();
    const std::lock_guard lock(mutex);
    if (!result.empty() && result != mine) throw Error(ErrorKind::internal, "ranks see different parameters");
    result = std::move(mine);
  });
  return result;
}

std::vector<float> train_in_one_piece(examples::ModelSpec spec, const examples::Text& text, int ranks,
                                      std::int64_t steps) {
  spec.sequences *= ranks;
  examples::Trainer<float> trainer(self(), spec, text, {.share = {}, .steps = steps});
  for (std::int64_t step = 0; step < steps; ++step) trainer.step();
  return trainer.parameters();
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(squares);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: soak_pipelines STEPS [MODEL [PATH]]\n");
    return 42;
  }
  const std::int64_t steps = std::atoll(argv[1]);
  examples::ModelSpec spec = examples::model_spec(argc > 2 ? argv[2] : "gpt-ref");
  spec.optimizer = {.kind = examples::OptimizerKind::sgd, .learning_rate = 0.1, .warmup_steps = 3};
  const examples::Text text =
      examples::Text::read(argc > 3 ? argv[3] : "/usr/share/common-licenses", spec.sequence_bytes());
  int failed = 0;
  int ranks = 0;
  std::vector<float> in_one_piece, first;
  const std::vector<float> start = train_in_one_piece(spec, text, 1, 0);
  const std::vector<float> nothing(start.size(), 0);
  for (const Variant& variant : variants()) {
    const std::vector<float> trained = train(variant, spec, text, steps);
    if (variant.ranks != ranks) {  // another batch
      ranks = variant.ranks;
      in_one_piece = train_in_one_piece(spec, text, ranks, steps);
      first = trained;
    }
    const bool equal = trained == first;
    const double away = distance(trained, in_one_piece);
    const double error = away / distance(in_one_piece, nothing);
    failed += equal && error <= 1e-6 ? 0 : 1;
    std::printf("%-32s %s   relative error %.1e (%.1e of what training changed)%s\n", variant.name.c_str(),
                equal ? "the same bits" : "DIFFERS", error, away / distance(in_one_piece, start),
                error <= 1e-6 ? "" : " FAILED");
    std::fflush(stdout);
  }
  std::printf("%lld steps of %s, %d failed\n", static_cast<long long>(steps), spec.name.c_str(), failed);
  return failed > 0 ? 1 : 0;
}
