#include "measure.hpp"

#include <algorithm>

#include "contestant.hpp"
#include "deepspeed.hpp"
#include "weft-scaling/gpt/trainer/trainer.hpp"

namespace weft::scaling {
namespace {

constexpr std::int64_t turn_steps = 5;     // a strategy trains this long before the next one does
constexpr std::int64_t single_steps = 10;  // rank 0 alone; the others sleep at the barrier
constexpr std::int64_t curve_points = 20;

/// Tokens per second of one rank while the others sleep.
double measure_single(Communicator comm, const Options& options, const examples::Text& text,
                      tool::Progress& progress) {
  Stream stream;
  const Communicator own = alone(comm);
  comm.slow_after(std::chrono::hours(1));  // it is meant to take long
  comm.barrier(stream).wait();
  double rate = 0;
  if (comm.rank() == 0) {
    const examples::ModelSpec spec = spec_of(options);
    const examples::TrainerOptions alone_options = trainer_options(options);
    examples::Trainer<float> trainer(own, spec, text, alone_options);
    std::vector<double> seconds;
    const std::int64_t steps = std::min(options.steps, single_steps);
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      trainer.step();
      progress.advance();
      if (i >= std::min<std::int64_t>(3, steps / 4)) seconds.push_back(seconds_since(begin));
    }
    rate = spec.predictions() * alone_options.micro_steps / quantile(seconds, 0.5);
  }
  const double agreed = gather(comm, rate)[0];
  comm.slow_after(std::chrono::seconds(1));
  return agreed;
}

/// Fills in the efficiency of each strategy against one rank alone and, if nocomm is among the strategies, against that.
void compare(std::vector<Run>& runs, const Options& options, double single) {
  const auto nocomm = std::ranges::find(runs, "nocomm", &Run::strategy);
  for (Run& run : runs) {
    if (nocomm != runs.end()) run.efficiency_vs_nocomm = run.tokens_per_second / nocomm->tokens_per_second;
    if (nocomm != runs.end() && options.wire_rate && !run.parts.bytes.empty())
      run.bound_seconds = run.parts.bound(nocomm->median_seconds, *options.wire_rate * 1e9);
    run.efficiency_vs_single = run.tokens_per_second / (single * run.ranks);
  }
}

}  // namespace

Measured measure(const Communicator& comm, const Options& given, const examples::Text& text,
                 const Heard& heard, const std::shared_ptr<Trace>& trace) {
  Options options = given;
  const examples::ModelSpec spec = spec_of(options);
  const auto strategies = static_cast<std::int64_t>(options.strategies.size());
  examples::Checkpoints checkpoints(comm, options.checkpoint);
  options.batches = checkpoints.batches(0, comm.size() * trainer_options(options).micro_steps);
  heard.progress.begin("steps", std::min(options.steps, single_steps) + strategies * options.steps);
  heard.progress.doing("one rank alone");
  const double single = measure_single(comm, options, text, heard.progress);

  std::vector<Contestant> contestants;
  contestants.reserve(options.strategies.size());
  for (const std::string& strategy : options.strategies) {
    heard.progress.doing("preparing " + strategy);
    contestants.emplace_back(strategy, comm, spec, options, text, trace);
  }
  for (Contestant& one : contestants) one.resume(checkpoints);
  const std::int64_t before = contestants.front().steps_done();
  if (before == options.steps) return {{}, before, {}};
  for (Contestant& one : contestants) {
    one.first_loss = one.held_out_loss();
    one.curve = {{before, one.first_loss}};
    heard.loss(one.strategy(), before, one.first_loss, one.first_loss);
  }

  const auto all_results = [&](const auto& last_loss) {
    std::vector<Run> runs;
    for (Contestant& one : contestants) runs.push_back(one.result(last_loss(one)));
    compare(runs, options, single);
    return runs;
  };
  const std::int64_t between_points = std::max(turn_steps, options.steps / curve_points);
  std::int64_t next_result = before;
  for (std::int64_t done = before; done < options.steps; done += turn_steps) {
    for (Contestant& one : contestants) {
      heard.progress.doing(one.strategy());
      if (!one.train(std::min(turn_steps, options.steps - done), checkpoints, heard.progress))
        return {{}, before, one.steps_done()};
      if (one.steps_done() < one.next_point + between_points && one.steps_done() < options.steps) continue;
      one.next_point = one.steps_done();
      const double loss = one.held_out_loss();
      one.curve.push_back({one.steps_done(), loss});
      heard.loss(one.strategy(), one.steps_done(), one.mean_training_loss(), loss);
    }
    const std::int64_t there = contestants.back().steps_done();
    if (!contestants.back().has_result() || there < next_result) continue;
    next_result = there + there / 10;
    heard.so_far(there, all_results([](const Contestant& one) { return one.curve.back().held_out; }));
  }
  heard.progress.doing("the last losses");
  return {all_results([](Contestant& one) { return one.held_out_loss(batches_at_end); }), before, {}};
}

}  // namespace weft::scaling
