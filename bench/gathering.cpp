// Steps of stage 3 beside a simulation: gpt-ref trained with parameters gathered ahead within several
// budgets, and the same computations replayed against a link with the speed that was measured alone just
// before (src/zero/simulation/step_simulation.hpp). The computation between weft's calls is recorded in the measured
// steps themselves, so the sharing of cores affects both.
//
//   launchers/cluster.sh up 4 1gbit
//   launchers/cluster.sh run -np 4 build/release/bin/bench_gathering [STEPS [MODEL]]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "program.hpp"
#include "weft-scaling/gpt/data/text.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"
#include "weft/weft.hpp"
#include "zero/simulation/step_simulation.hpp"

namespace {

using namespace weft;
using detail::StepTape;
using Clock = std::chrono::steady_clock;

constexpr int warm_up = 3;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Records the computation between the calls that are reported to it.
class Recorder {
 public:
  void begin_step() {
    tape_ = {};
    resume();
  }
  /// Computation stops for a call; resume() after it.
  void stop(StepTape::Call call, int of) { tape_.entries.push_back({call, of, seconds_since(resumed_)}); }
  void resume() { resumed_ = Clock::now(); }
  StepTape end_step() {
    tape_.rest_seconds = seconds_since(resumed_);
    return std::move(tape_);
  }

 private:
  StepTape tape_;
  Clock::time_point resumed_;
};

class Training final : public examples::ParameterSource, public examples::GradientSink<float> {
 public:
  Training(const Communicator& comm, const examples::ModelSpec& spec,
           std::optional<std::size_t> prefetch_bytes)
      : comm_(comm),
        prefetch_bytes_(prefetch_bytes),
        text_(examples::Text::read("/usr/share/common-licenses", spec.sequence_bytes())),
        model_(examples::make_model<float>(spec)),
        layout_(ParamLayout::of(model_->parameters())),
        params_(comm, layout_, options()),
        batch_(static_cast<std::size_t>(spec.sequences)) {
    load();
    model_->follow(this);
    optimizer_.emplace(params_, zero::AdamW{.learning_rate = 1e-4});
  }

  void use(int unit) override {
    recorder_.stop(StepTape::Call::use, unit);
    gathered_.emplace(params_.gather(unit, compute_));
    for (int i = 0; i < params_.layout().parameters(); ++i) {
      if (params_.unit_of(ParamId{i}) == unit)
        model_->table().place(i, static_cast<float*>((*gathered_)[ParamId{i}].data()));
    }
    recorder_.resume();
  }
  void done(int unit) override {
    recorder_.stop(StepTape::Call::done, unit);
    gathered_.reset();
    recorder_.resume();
  }
  float* target(int parameter) override {
    recorder_.stop(StepTape::Call::place, parameter);
    params_.poll();
    const View place = params_.gradient(ParamId{parameter}, compute_);
    recorder_.resume();
    return static_cast<float*>(place.data());
  }
  void ready(int parameter) override {
    recorder_.stop(StepTape::Call::ready, parameter);
    params_.mark_ready(ParamId{parameter}, compute_);
    recorder_.resume();
  }

  void step() {
    const auto begin = Clock::now();
    text_.training(1, steps_++, comm_.rank() * std::ssize(batch_), batch_);
    params_.begin_step();
    recorder_.begin_step();
    model_->forward(batch_);
    model_->backward(*this);
    StepTape tape = recorder_.end_step();
    const auto update = Clock::now();
    const double exposed = params_.exposed_seconds();
    optimizer_->step(compute_);
    Stream(compute_).synchronize();
    tape.update_seconds = seconds_since(update) - (params_.exposed_seconds() - exposed);
    tapes_.push_back(std::move(tape));
    seconds_.push_back(seconds_since(begin));
  }

  double mean_seconds() const {
    return std::accumulate(seconds_.begin() + warm_up, seconds_.end(), 0.0) /
           static_cast<double>(std::ssize(seconds_) - warm_up);
  }
  const std::vector<StepTape>& tapes() const { return tapes_; }
  /// What ShardedParams plan, by the rule they follow.
  detail::ParamsPlan plan() const {
    const zero::ShardedOptions asked = options();
    detail::ParamsPlan plan(layout_, {.stage = 3,
                                      .ranks = comm_.size(),
                                      .bucket_bytes = detail::usual_bucket_bytes(comm_.topology().nodes()),
                                      .units = asked.units,
                                      .prefetch_bytes = prefetch_bytes_});
    if (plan.shards()->plan().hash() != params_.reducer().plan().hash())
      throw Error(ErrorKind::internal, "the plan that is simulated is not the one of the training");
    return plan;
  }

 private:
  zero::ShardedOptions options() const {
    zero::ShardedOptions options{.stage = 3, .prefetch_bytes = prefetch_bytes_};
    for (const int first : model_->groups()) options.units.push_back(ParamId{first});
    return options;
  }
  // All ranks draw the same.
  void load() {
    const auto infos = std::span(model_->parameters());
    const std::vector<std::int64_t> offsets = examples::packed_offsets(infos);
    Buffer start = Buffer::on_host(DataType::f32, examples::total_count(infos));
    model_->bind(start.view(), offsets);
    model_->initialize(1);
    for (std::size_t i = 0; i < infos.size(); ++i)
      params_.load(ParamId{static_cast<int>(i)}, start.view().slice(offsets[i], infos[i].count));
  }

  Communicator comm_;
  std::optional<std::size_t> prefetch_bytes_;
  examples::Text text_;
  std::unique_ptr<examples::Model<float>> model_;
  ParamLayout layout_;
  zero::ShardedParams params_;
  std::optional<zero::ShardedOptimizer> optimizer_;
  std::optional<zero::Gathered> gathered_;
  std::vector<examples::Sequence> batch_;
  Stream compute_;
  Recorder recorder_;
  std::int64_t steps_ = 0;
  std::vector<double> seconds_;
  std::vector<StepTape> tapes_;
};

/// The median of nine samples of the last rank.
template <class Transfer>
double alone(Communicator comm, Transfer transfer) {
  Stream wire = comm.progress_stream();
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) {
    comm.barrier(wire).wait();
    const auto begin = Clock::now();
    transfer(wire);
    wire.synchronize();
    seconds.push_back(seconds_since(begin));
  }
  comm.all_reduce(View(std::span(seconds)), ReduceOp::max, wire).wait();
  std::ranges::nth_element(seconds, seconds.begin() + 4);
  return seconds[4];
}

detail::WireSeconds measure(const Communicator& comm, const BucketPlan& plan) {
  detail::WireSeconds wire;
  Communicator link = comm;
  std::map<std::int64_t, std::pair<double, double>> known;  // by elements
  for (const Bucket& bucket : plan.buckets()) {
    auto [found, is_new] = known.try_emplace(bucket.count());
    if (is_new) {
      Buffer whole = link.allocate(DataType::f32, bucket.count());
      const std::int64_t part = bucket.count() / link.size();
      const View mine = whole.view().slice(part * link.rank(), part);
      found->second = {alone(link, [&](Stream& stream) { link.all_gather(mine, whole.view(), stream); }),
                       alone(link, [&](Stream& stream) {
                         link.reduce_scatter(whole.view(), mine, ReduceOp::avg, stream);
                       })};
    }
    wire.gather.push_back(found->second.first);
    wire.reduce.push_back(found->second.second);
  }
  return wire;
}

/// The recordings of all ranks. The calls are the same on every rank, the seconds differ.
std::vector<std::vector<StepTape>> exchanged(Communicator comm, const std::vector<StepTape>& own) {
  std::vector<double> seconds;
  for (const StepTape& tape : own) {
    for (const auto& entry : tape.entries) seconds.push_back(entry.seconds);
    seconds.insert(seconds.end(), {tape.rest_seconds, tape.update_seconds});
  }
  std::vector<double> all(seconds.size() * static_cast<std::size_t>(comm.size()));
  Stream stream;
  comm.all_gather(ConstView(std::span<const double>(seconds)), View(std::span(all)), stream).wait();
  std::vector<std::vector<StepTape>> tapes(static_cast<std::size_t>(comm.size()), own);
  auto next = all.begin();
  for (auto& rank : tapes) {
    for (StepTape& tape : rank) {
      for (auto& entry : tape.entries) entry.seconds = *next++;
      tape.rest_seconds = *next++;
      tape.update_seconds = *next++;
    }
  }
  return tapes;
}

void compare(const Communicator& comm, const examples::ModelSpec& spec, const char* name,
             std::optional<std::size_t> prefetch_bytes, int steps) {
  Training training(comm, spec, prefetch_bytes);
  const detail::ParamsPlan plan = training.plan();
  const detail::WireSeconds wire = measure(comm, plan.shards()->plan());
  for (int i = 0; i < warm_up + steps; ++i) training.step();
  const auto simulated = detail::simulate_steps(plan, exchanged(comm, training.tapes()), wire);
  const double expected = (simulated.ends.back() - simulated.ends[warm_up - 1]) / steps;
  const double all = steps + warm_up;
  if (comm.rank() != 0) return;
  std::printf(
      "%-18s %2d gather buffers  step %7.1f ms, simulated %7.1f ms: %.3f; of these waited for units %.1f, "
      "places "
      "%.1f, means %.1f ms\n",
      name, plan.gather_buffers(), training.mean_seconds() * 1e3, expected * 1e3,
      training.mean_seconds() / expected, simulated.for_units / all * 1e3, simulated.for_places / all * 1e3,
      simulated.for_means / all * 1e3);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10;
  if (steps < 1 || argc > 3) {
    std::fprintf(stderr, "usage: bench_gathering [STEPS [MODEL]], 1 or more steps\n");
    return 42;
  }
  const examples::ModelSpec& spec = examples::model_spec(argc > 2 ? argv[2] : "gpt-ref");
  const Communicator comm = connect(World::from_environment());
  compare(comm, spec, "nothing ahead", 0, steps);
  compare(comm, spec, "one unit ahead", std::nullopt, steps);
  compare(comm, spec, "all units ahead", std::size_t{1} << 40, steps);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
