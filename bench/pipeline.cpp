// The time of an executed schedule beside the prediction of simulate(): stages that sleep, and stages that
// compute.
//
//   mpirun -n 4 bench_pipeline sleep [MILLISECONDS [ROUNDS]]       default: 10 ms, 7 rounds
//   mpirun -n 2 bench_pipeline compute [MILLISECONDS [ROUNDS]]
//
// One device a rank, 4 microbatches a device, stages that differ by up to 40 %; a value has the size of
// gpt-ref's activations. Sleeping stages leave the cores free, so that many run on few cores; their cost is
// the requested one. Computing stages multiply matrices for about that long; their cost is the median of the
// compared step itself, because the machine is shared. The latency of a hop is that of such a message between
// neighbours that wait for it. Ranks of one node share a clock: the makespan is from the first begin
// of a computation to the last end, over all ranks.

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using namespace weft::pipeline;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t value_count = 4 * 128 * 384;  // gpt-ref: sequences, context, width
constexpr int microbatches_a_device = 4;

struct Work {
  bool sleeps = true;
  std::vector<StageCosts> asked;  ///< by stage
};

/// Computes for about that long at the speed of this core.
class Multiplying {
 public:
  void run(Nanoseconds time) {
    for (auto i = static_cast<std::int64_t>(static_cast<double>(time) / pace_); i > 0; --i) product();
  }

 private:
  static constexpr int side = 96;
  void product() {
    for (int i = 0; i < side; ++i) {
      for (int k = 0; k < side; ++k) {
        const float a = a_[i * side + k];
        for (int j = 0; j < side; ++j) c_[i * side + j] += a * b_[k * side + j];
      }
    }
    asm volatile("" : : "r"(c_.data()) : "memory");  // keeps the product from being optimized away
  }
  double measured_pace() {
    const auto begin = Clock::now();
    for (int i = 0; i < 400; ++i) product();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / 400;
  }

  std::vector<float> a_ = std::vector<float>(side * side, 0.5F), b_ = a_, c_ = a_;
  double pace_ = measured_pace();
};

class TimedStage final : public Stage {
 public:
  TimedStage(const Work& work, int stage, Multiplying& multiplying)
      : sleeps_(work.sleeps),
        first_(stage == 0),
        last_(stage + 1 == static_cast<int>(work.asked.size())),
        costs_(work.asked[static_cast<std::size_t>(stage)]),
        multiplying_(multiplying) {}

  Boundary input() const override { return {DataType::f32, first_ ? 0 : value_count}; }
  Boundary output() const override { return {DataType::f32, last_ ? 0 : value_count}; }
  void forward(const MicrobatchValues&, const Stream&) override { take(costs_.forward); }
  void backward_input(const MicrobatchValues&, const Stream&) override { take(costs_.backward_input); }
  void backward_weight(const MicrobatchValues&, const Stream&) override { take(costs_.backward_weight); }

 private:
  void take(Nanoseconds time) const {
    if (!sleeps_) return multiplying_.run(time);
    std::this_thread::sleep_for(std::chrono::nanoseconds(time));
  }

  bool sleeps_, first_, last_;
  StageCosts costs_;
  Multiplying& multiplying_;
};

std::int64_t over_ranks(Communicator comm, std::int64_t value, ReduceOp op) {
  Stream stream;
  comm.all_reduce(View(std::span(&value, 1)), op, stream).wait();
  return value;
}

/// The requested costs: stages that differ by up to 40 %.
Problem problem_of(int devices, int chunks, Nanoseconds unit, Nanoseconds hop) {
  Problem problem;
  problem.devices = devices;
  problem.microbatches = microbatches_a_device * devices;
  for (int s = 0; s < devices * chunks; ++s) {
    const Nanoseconds each = unit * (10 + (3 * s + 1) % 5) / 10 / chunks;
    problem.costs.stages.push_back({.forward = each,
                                    .backward_input = each,
                                    .backward_weight = each * 3 / 4,
                                    .activation = 1 << 20,
                                    .kept_for_weight = 1 << 20});
  }
  problem.costs.hops.assign(static_cast<std::size_t>(devices * chunks - 1), Hop{.latency = hop});
  problem.memory_limit.assign(static_cast<std::size_t>(devices), Bytes{devices} * chunks << 20);
  return problem;
}

struct Plan {
  std::string name;
  Schedule schedule;
  Problem problem;
};

std::vector<Plan> plans(int devices, Nanoseconds unit, Nanoseconds hop) {
  std::vector<Plan> result;
  const Problem one = problem_of(devices, 1, unit, hop);
  for (const char* name : {"gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2"}) {
    Problem problem = one;
    problem.memory_limit.clear();
    result.push_back({name, make_named(name, problem), problem});
  }
  const Problem two = problem_of(devices, 2, unit, hop);
  for (const char* name : {"interleaved", "zb-v"}) {
    Problem problem = two;
    problem.memory_limit.clear();
    result.push_back({name, make_named(name, problem), problem});
  }
  const Synthesis found = synthesize(two);
  result.push_back({"auto", found.schedule, found.problem});
  return result;
}

/// The makespan of a step, over all ranks.
Nanoseconds makespan(const Communicator& comm, const StageExecutor& executor) {
  const auto& row = executor.schedule().rows[static_cast<std::size_t>(comm.rank())];
  const Execution& times = executor.execution();
  std::int64_t begin = INT64_MAX;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!is_compute(row[i].type)) continue;
    begin = std::min(begin, times.begins[i]);
    end = std::max(end, times.ends[i]);
  }
  return over_ranks(comm, end, ReduceOp::max) - over_ranks(comm, begin, ReduceOp::min);
}

/// The median time of each stage in the last step; the same on all ranks.
void put_measured(const Communicator& comm, const StageExecutor& executor, Problem& problem) {
  const auto& row = executor.schedule().rows[static_cast<std::size_t>(comm.rank())];
  for (int s = 0; s < problem.stages(); ++s) {
    StageCosts& costs = problem.costs.stages[static_cast<std::size_t>(s)];
    const auto median_of = [&](ActionType type) {
      std::vector<double> all;
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i].type == type && row[i].stage == s)
          all.push_back(static_cast<double>(executor.execution().ends[i] - executor.execution().begins[i]));
      }
      const std::int64_t mine = all.empty() ? 0 : static_cast<std::int64_t>(bench::median(all));
      return over_ranks(comm, mine, ReduceOp::max);
    };
    const Nanoseconds both = median_of(ActionType::backward);
    costs.forward = median_of(ActionType::forward);
    costs.backward_input = both > 0 ? both - both / 2 : median_of(ActionType::backward_input);
    costs.backward_weight = both > 0 ? both / 2 : median_of(ActionType::backward_weight);
  }
}

struct Contestant {
  Contestant(const Communicator& comm, Plan given, bool sleeps, Multiplying& multiplying)
      : plan(std::move(given)) {
    const Work work{sleeps, plan.problem.costs.stages};
    std::vector<Stage*> mine;
    for (const int stage : plan.schedule.stages_of(comm.rank())) {
      stages.push_back(std::make_unique<TimedStage>(work, stage, multiplying));
      mine.push_back(stages.back().get());
    }
    executor.emplace(comm, plan.schedule, mine, ExecutorOptions{.keep_times = true});
  }
  void step(Communicator comm) {
    Stream stream;
    comm.barrier(stream).wait();
    executor->step(stream);
  }

  Plan plan;
  std::vector<std::unique_ptr<TimedStage>> stages;
  std::optional<StageExecutor> executor;
  std::vector<double> measured{}, ratios{};
};

int run(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  const int milliseconds = argc > 2 ? std::atoi(argv[2]) : 10;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 7;
  if ((kind != "sleep" && kind != "compute") || milliseconds < 1 || rounds < 1)
    throw Error(ErrorKind::usage, "wanted: bench_pipeline sleep|compute [MILLISECONDS [ROUNDS]]");
  const Communicator comm = connect(World::from_environment());
  if (comm.size() < 2) throw Error(ErrorKind::usage, "one rank is no pipeline", "start 2 or more");
  if (comm.topology().nodes() > 1)
    throw Error(ErrorKind::usage, "bench_pipeline compares clocks of one node");
  prctl(PR_SET_TIMERSLACK, 1);  // who sleeps 10 ms is to be woken then, not when it suits the machine
  const Nanoseconds hop = measured_hop(comm, {DataType::f32, value_count}, {.repetitions = 29}).delay();
  Multiplying multiplying;
  std::vector<Contestant> contestants;
  for (Plan& plan : plans(comm.size(), Nanoseconds{milliseconds} * 1'000'000, hop))
    contestants.emplace_back(comm, std::move(plan), kind == "sleep", multiplying);
  for (int round = 0; round <= rounds; ++round) {
    for (Contestant& one : contestants) {
      one.step(comm);
      if (kind == "compute") put_measured(comm, *one.executor, one.plan.problem);
      if (round == 0) continue;
      const auto took = static_cast<double>(makespan(comm, *one.executor));
      const auto predicted =
          static_cast<double>(simulate(one.executor->schedule(), one.plan.problem).makespan);
      one.measured.push_back(took);
      one.ratios.push_back(took / predicted);
    }
  }
  if (comm.rank() != 0) return 0;
  std::printf("%d devices, %d microbatches, a value %.3f ms on its way\n", comm.size(),
              comm.size() * microbatches_a_device, static_cast<double>(hop) * 1e-6);
  for (Contestant& one : contestants) {
    const double middle = bench::median(one.ratios);
    std::printf("%-12s measured %8.2f ms   %.3f of the simulated (%.3f to %.3f)\n", one.plan.name.c_str(),
                bench::median(one.measured) * 1e-6, middle, one.ratios.front(), one.ratios.back());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
