// The cost of finding a schedule: synthesized, verified, its bound computed and checked, on one core.
//
//   bench_synthesis [ROUNDS]                  default: 5
//
// Stages that are alike, F = B = W, in the memory of 1F1B: 32 stages with 256 microbatches, and 1,024 with
// 4,096; and 32 stages that differ by up to half, where the search spends all its effort.

#include <cstdio>
#include <cstdlib>
#include <random>

#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using namespace weft::pipeline;

Problem alike(int devices, int microbatches) {
  Problem problem{.devices = devices,
                  .microbatches = microbatches,
                  .costs = uniform_costs(devices, 1, {1'000'000, 1'000'000, 1'000'000, 1 << 20, 1 << 20})};
  problem.memory_limit.assign(static_cast<std::size_t>(devices), Bytes{devices} << 20);
  return problem;
}

Problem uneven(int devices, int microbatches) {
  Problem problem = alike(devices, microbatches);
  std::mt19937 random(1);
  for (StageCosts& stage : problem.costs.stages) {
    const auto part = static_cast<Nanoseconds>(500 + random() % 1001);
    stage.forward = stage.backward_input = stage.backward_weight = 1000 * part;
  }
  return problem;
}

struct Outcome {
  double gap = 0, bubble = 0;
};

Outcome once(const Problem& problem) {
  const Synthesis found = synthesize(problem);
  verify(found.schedule, found.problem);
  if (!holds(found.certificate, found.floor_problem, found.floor_placement))
    throw Error(ErrorKind::internal, "a bound that does not hold");
  return {found.gap(), simulate(found.schedule, found.problem).bubble_makespan()};
}

int run(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  if (rounds < 1) throw Error(ErrorKind::usage, "rounds below 1", "bench_synthesis [ROUNDS]");
  bench::stay_on_one_core();
  std::vector<bench::Case> cases;
  std::vector<Outcome> outcomes(3);
  const auto add = [&](const char* name, const Problem& problem, std::size_t at) {
    cases.push_back({name, [&outcomes, problem, at](int) { outcomes[at] = once(problem); }});
  };
  add("32 stages, 256 microbatches", alike(32, 256), 0);
  add("the same, stages that differ by up to half", uneven(32, 256), 1);
  add("1,024 stages, 4,096 microbatches", alike(1024, 4096), 2);
  bench::in_turn(cases, rounds);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const double median = bench::median(cases[i].seconds);
    std::printf("%-44s %9.1f ms (%.1f to %.1f), bubble %.4f, %.2f %% from the bound\n", cases[i].name.c_str(),
                1e3 * median, 1e3 * cases[i].seconds.front(), 1e3 * cases[i].seconds.back(),
                outcomes[i].bubble, 100 * outcomes[i].gap);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
