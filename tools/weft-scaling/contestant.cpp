#include "contestant.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "deepspeed.hpp"
#include "strategy.hpp"

namespace weft::scaling {
namespace {

using Clock = std::chrono::steady_clock;

/// The batches of a step for each rank, in the mean.
double batches_each(const Options& options, int ranks) {
  if (options.batches == 0) return trainer_options(options).micro_steps;
  return static_cast<double>(options.batches) / ranks;
}

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The last turn may end early, with a step that costs what others do not, and is left out.
std::vector<double> means_of_turns(const std::vector<double>& values, std::ptrdiff_t first,
                                   std::ptrdiff_t period) {
  const std::ptrdiff_t whole = std::ssize(values) / period;
  std::vector<double> result;
  for (std::ptrdiff_t begin = 0; begin < whole * period; begin += period) {
    if (begin < first) continue;
    result.push_back(mean({values.begin() + begin, values.begin() + begin + period}));
  }
  if (result.empty()) result.push_back(mean({values.begin() + first, values.end()}));
  return result;
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> gather(Communicator comm, double mine) {
  std::vector<double> all(static_cast<std::size_t>(comm.size()));
  Stream stream;
  comm.all_gather(ConstView(std::span<const double>(&mine, 1)), View(std::span(all)), stream).wait();
  return all;
}

std::vector<double> mean_of_ranks(Communicator comm, std::vector<double> mine) {
  Stream stream;
  comm.all_reduce(View(std::span(mine)), ReduceOp::sum, stream).wait();
  for (double& value : mine) value /= comm.size();
  return mine;
}

Communicator alone(Communicator comm) {
  return comm.device().is_host() ? self() : *comm.split(comm.rank());
}

Contestant::Contestant(std::string strategy, const Communicator& comm, const examples::ModelSpec& spec,
                       const Options& options, const examples::Text& text, std::shared_ptr<Trace> trace)
    : strategy_(std::move(strategy)),
      comm_(comm),
      trace_(std::move(trace)),
      predictions_(spec.predictions() * batches_each(options, comm.size())),
      all_steps_(options.steps),
      first_counted_(first_counted(options)),
      training_(make_training(strategy_, comm, spec, options, text, trace_)) {}

void Contestant::resume(examples::Checkpoints& checkpoints) {
  training_->resume(checkpoints);
  next_point = steps_done();
}

bool Contestant::train(std::int64_t steps, examples::Checkpoints& checkpoints, tool::Progress& progress) {
  Stream stream;
  comm_.barrier(stream).wait();
  for (std::int64_t i = 0; i < steps; ++i) {
    const double exposed = training_->exposed_seconds();
    const std::uint64_t sent = training_->wire_bytes();
    const auto begin = Clock::now();
    training_->step();
    seconds_.push_back(seconds_since(begin));
    comm_.meter().step(seconds_.back());
    exposed_.push_back(training_->exposed_seconds() - exposed);
    wire_bytes_.push_back(static_cast<double>(training_->wire_bytes() - sent));
    progress.advance();
    if (!training_->after_step(checkpoints, steps_done() == all_steps_)) return false;
  }
  training_->account(accounted_);
  return true;
}

Run Contestant::result(double last_loss) {
  // After a checkpoint there may be fewer steps than are left out; the last one counts then.
  const std::ptrdiff_t skipped =
      std::min(std::ssize(seconds_) - 1, static_cast<std::ptrdiff_t>(first_counted_));
  if (seconds_.empty()) throw Error(ErrorKind::internal, "a result of a strategy before a step");
  const auto period = static_cast<std::ptrdiff_t>(training_->period());
  const std::vector<double> timed = means_of_turns(seconds_, skipped, period);
  const std::vector<double> waited = means_of_turns(exposed_, skipped, period);
  const GradientReducer* reducer = training_->reducer();
  if (trace_ && reducer != nullptr && reducer->profile())
    trace_->attach("buckets", reducer->profile()->to_json(reducer->layout()));
  const std::vector<double> medians = gather(comm_, quantile(timed, 0.5));
  Run run;
  run.strategy = strategy_;
  run.ranks = comm_.size();
  run.median_seconds = mean(medians);
  run.p99_seconds = std::ranges::max(gather(comm_, quantile(timed, 0.99)));
  for (const double median : medians) run.tokens_per_second += predictions_ / median;
  run.exposed_seconds = mean(gather(comm_, quantile(waited, 0.5)));
  // The last step of local:H/P exchanges all fragments, whether they are due or not.
  std::vector<double> sent = wire_bytes_;
  if (period > 1 && std::ssize(sent) > period) sent.pop_back();
  run.wire_bytes_per_step = mean(gather(comm_, means_of_turns(sent, 0, period).back()));
  run.peak_bytes_per_rank = static_cast<std::int64_t>(
      std::ranges::max(gather(comm_, static_cast<double>(training_->held_bytes()))));
  run.first_loss = first_loss;
  run.last_loss = last_loss;
  run.curve = curve;
  run.parts = accounted_.median(comm_, first_counted_);
  run.choice = training_->choice();
  run.explanation = training_->explanation();
  run.samples = mean_of_ranks(comm_, timed);
  return run;
}

}  // namespace weft::scaling
