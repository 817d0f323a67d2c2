#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "trainer.hpp"

namespace weft::scaling {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t turn_steps = 5;     // a strategy trains this long before the next one does
constexpr std::int64_t single_steps = 10;  // rank 0 alone; the others sleep at the barrier
constexpr std::int64_t held_out_batches = 4;
constexpr std::int64_t curve_points = 8;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

/// This rank's own communicator, on the same device. Collective.
Communicator alone(Communicator comm) {
  return comm.device().is_host() ? self() : *comm.split(comm.rank());
}

/// Every rank's number, by rank.
std::vector<double> gather(Communicator comm, double mine) {
  std::vector<double> all(static_cast<std::size_t>(comm.size()));
  Stream stream;
  comm.all_gather(ConstView(std::span<const double>(&mine, 1)), View(std::span(all)), stream).wait();
  return all;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The first steps touch memory for the first time and are left out of the times.
std::int64_t warm_up(std::int64_t steps) {
  return std::min<std::int64_t>(3, steps / 4);
}

/// One strategy in training.
class Contestant {
 public:
  Contestant(std::string strategy, const Communicator& comm, const Options& options,
             const examples::Text& text)
      : strategy_(std::move(strategy)),
        comm_(comm),
        trainer_(strategy_ == "nocomm" ? alone(comm) : comm, examples::model_spec(options.model), text,
                 {.share = {comm.rank(), comm.size()},
                  .steps = options.steps,
                  .seed = options.seed,
                  .reducer = {.bucket_bytes = options.bucket_bytes}}) {}

  void train(std::int64_t steps) {
    Stream stream;
    comm_.barrier(stream).wait();
    for (std::int64_t i = 0; i < steps; ++i) {
      const double exposed = trainer_.reducer().exposed_seconds();
      const std::uint64_t sent = trainer_.wire_bytes();
      const auto begin = Clock::now();
      training_loss_ = trainer_.step();
      seconds_.push_back(seconds_since(begin));
      exposed_.push_back(trainer_.reducer().exposed_seconds() - exposed);
      wire_bytes_ = trainer_.wire_bytes() - sent;
    }
  }

  /// Every rank evaluates its share of the same held-out sequences.
  double held_out_loss() {
    const std::int64_t each = trainer_.sequences();
    const std::int64_t count = held_out_batches * each * comm_.size();
    double sum = 0;
    for (std::int64_t batch = 0; batch < held_out_batches; ++batch) {
      sum += trainer_.held_out_loss((batch * comm_.size() + comm_.rank()) * each, count);
    }
    return mean(gather(comm_, sum / held_out_batches));
  }

  double mean_training_loss() { return mean(gather(comm_, training_loss_)); }
  std::int64_t steps_done() const { return trainer_.steps_done(); }
  const std::string& strategy() const { return strategy_; }
  /// Steps between two points of the loss curve.
  std::int64_t next_point = 0;
  double first_loss = 0;

  Run result(const examples::ModelSpec& spec, double last_loss) {
    const auto skipped = static_cast<std::ptrdiff_t>(warm_up(trainer_.steps_done()));
    const std::vector<double> timed(seconds_.begin() + skipped, seconds_.end());
    const std::vector<double> waited(exposed_.begin() + skipped, exposed_.end());
    const std::vector<double> medians = gather(comm_, quantile(timed, 0.5));
    Run run;
    run.strategy = strategy_;
    run.ranks = comm_.size();
    run.median_seconds = mean(medians);
    run.p99_seconds = std::ranges::max(gather(comm_, quantile(timed, 0.99)));
    for (const double median : medians) run.tokens_per_second += spec.predictions() / median;
    run.exposed_seconds = mean(gather(comm_, quantile(waited, 0.5)));
    run.wire_bytes_per_step = static_cast<double>(wire_bytes_);
    run.peak_bytes_per_rank = static_cast<std::int64_t>(
        std::ranges::max(gather(comm_, static_cast<double>(trainer_.held_bytes()))));
    run.first_loss = first_loss;
    run.last_loss = last_loss;
    return run;
  }

 private:
  std::string strategy_;
  Communicator comm_;
  examples::Trainer<float> trainer_;
  std::vector<double> seconds_;
  std::vector<double> exposed_;
  std::uint64_t wire_bytes_ = 0;
  double training_loss_ = 0;
};

/// Tokens per second of one rank while the others sleep.
double measure_single(Communicator comm, const Options& options, const examples::Text& text) {
  Stream stream;
  const Communicator own = alone(comm);
  comm.barrier(stream).wait();
  double rate = 0;
  if (comm.rank() == 0) {
    const examples::ModelSpec& spec = examples::model_spec(options.model);
    examples::Trainer<float> trainer(own, spec, text,
                                     {.share = {}, .steps = options.steps, .seed = options.seed});
    std::vector<double> seconds;
    const std::int64_t steps = std::min(options.steps, single_steps);
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto begin = Clock::now();
      trainer.step();
      if (i >= warm_up(steps)) seconds.push_back(seconds_since(begin));
    }
    rate = spec.predictions() / quantile(seconds, 0.5);
  }
  return gather(comm, rate)[0];
}

}  // namespace

std::vector<Run> measure(const Communicator& comm, const Options& options, const examples::Text& text,
                         const Progress& progress) {
  const examples::ModelSpec& spec = examples::model_spec(options.model);
  const double single = measure_single(comm, options, text);

  std::vector<Contestant> contestants;
  contestants.reserve(options.strategies.size());
  for (const std::string& strategy : options.strategies)
    contestants.emplace_back(strategy, comm, options, text);
  for (Contestant& one : contestants) {
    one.first_loss = one.held_out_loss();
    progress.loss(one.strategy(), 0, one.first_loss, one.first_loss);
  }

  const std::int64_t between_points = std::max(turn_steps, options.steps / curve_points);
  std::vector<double> last(contestants.size());
  for (std::int64_t done = 0; done < options.steps; done += turn_steps) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      Contestant& one = contestants[i];
      one.train(std::min(turn_steps, options.steps - done));
      if (one.steps_done() < one.next_point + between_points && one.steps_done() < options.steps) continue;
      one.next_point = one.steps_done();
      last[i] = one.held_out_loss();
      progress.loss(one.strategy(), one.steps_done(), one.mean_training_loss(), last[i]);
    }
  }

  std::vector<Run> runs;
  for (std::size_t i = 0; i < contestants.size(); ++i) runs.push_back(contestants[i].result(spec, last[i]));
  const auto nocomm = std::ranges::find(runs, "nocomm", &Run::strategy);
  for (Run& run : runs) {
    if (nocomm != runs.end()) run.efficiency_vs_nocomm = run.tokens_per_second / nocomm->tokens_per_second;
    run.efficiency_vs_single = run.tokens_per_second / (single * run.ranks);
  }
  return runs;
}

}  // namespace weft::scaling
