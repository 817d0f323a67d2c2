#include "sweep.hpp"

#include <algorithm>

#include "contestant.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

constexpr std::int64_t sweep_turn_steps = 5;

/// Broadcasts the measurements of rank 0. Only numbers are sent; the rest follows from the arguments.
SweepRun share(Communicator comm, SweepRun mine) {
  std::vector<double> numbers{mine.run.median_seconds,      mine.run.p99_seconds,
                              mine.run.tokens_per_second,   mine.run.exposed_seconds,
                              mine.run.wire_bytes_per_step, static_cast<double>(mine.run.peak_bytes_per_rank),
                              mine.run.first_loss,          mine.run.last_loss};
  mine.run.samples.clear();  // ranks that did not take part have none
  Stream stream;
  comm.broadcast(View(std::span(numbers)), 0, stream).wait();
  mine.run.median_seconds = numbers[0];
  mine.run.p99_seconds = numbers[1];
  mine.run.tokens_per_second = numbers[2];
  mine.run.exposed_seconds = numbers[3];
  mine.run.wire_bytes_per_step = numbers[4];
  mine.run.peak_bytes_per_rank = static_cast<std::int64_t>(numbers[5]);
  mine.run.first_loss = numbers[6];
  mine.run.last_loss = numbers[7];
  return mine;
}

SweepRun measure(Communicator comm, int ranks, bool strong, const Options& options,
                 const examples::Text& text, tool::Progress& progress) {
  const bool takes_part = comm.rank() < ranks;
  const auto part = comm.split(takes_part ? std::optional(0) : std::nullopt);
  examples::ModelSpec spec = spec_of(options);
  if (strong) spec.sequences /= ranks;
  std::optional<Contestant> one;
  if (part) one.emplace("ddp", *part, spec, options, text, nullptr);
  if (one) one->first_loss = one->held_out_loss();
  // The other ranks sleep at barriers. Each ends long before a deadline, and none is to be reported as slow.
  comm.slow_after(std::chrono::hours(1));
  examples::Checkpoints none(comm, {});
  for (std::int64_t done = 0; done < options.steps; done += sweep_turn_steps) {
    if (one) one->train(std::min(sweep_turn_steps, options.steps - done), none, progress);
    Stream stream;
    comm.barrier(stream).wait();
  }
  SweepRun result;
  if (one) result.run = one->result(one->held_out_loss(batches_at_end));
  result.strong = strong;
  result.run.strategy = "ddp";
  result.run.ranks = ranks;
  return share(comm, result);
}

}  // namespace

void check_sweep(const Options& options, int ranks) {
  const examples::ModelSpec& spec = examples::model_spec(options.model);
  for (const int wanted : options.sweep) {
    if (wanted > ranks) {
      throw Error(ErrorKind::usage,
                  text("--sweep ", wanted, " of the ", ranks, " rank(s) that the launcher provides"),
                  text("start it with mpirun -n ", wanted, " or weft-launch -n ", wanted));
    }
    if (spec.sequences % wanted != 0) {
      throw Error(ErrorKind::usage, text("--sweep ", wanted, ": ", wanted, " ranks cannot share the ",
                                         spec.sequences, " sequences of ", spec.name, " evenly"));
    }
  }
}

std::vector<SweepRun> sweep(Communicator comm, const Options& options, const examples::Text& text,
                            tool::Progress& progress, const std::function<void(const SweepRun&)>& say) {
  std::vector<SweepRun> runs;
  progress.begin("steps", 2 * static_cast<std::int64_t>(options.sweep.size()) * options.steps);
  for (const bool strong : {false, true}) {
    double first = 0;
    for (const int ranks : options.sweep) {
      progress.doing(
          weft::text(strong ? "strong" : "weak", " scaling on ", ranks, ranks == 1 ? " rank" : " ranks"));
      SweepRun one = measure(comm, ranks, strong, options, text, progress);
      const double each = one.run.tokens_per_second / ranks;
      if (first == 0) first = each;
      one.efficiency = each / first;
      runs.push_back(one);
      say(one);
    }
  }
  return runs;
}

}  // namespace weft::scaling
