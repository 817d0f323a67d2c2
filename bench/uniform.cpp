// How near the bound schedules come where stages are alike, in twice the memory of 1F1B, by span.
//
//   bench_uniform [EFFORT]                  default: 1, a multiple of the usual
//
// 20 profiles as measured of transformers: F 1, B .97, W .5 to .75, hops .03 to .05; 57 % of an activation is
// released by the input gradient. A line each: what is found, the bound, the gap between them, seconds.

#include <cstdio>
#include <cstdlib>

#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using namespace weft::pipeline;

struct Profile {
  int stages, microbatches;
  double weight, hop;
};

constexpr Profile profiles[] = {
    {8, 24, .50, .03},  {8, 32, .60, .04},   {8, 48, .70, .05},  {8, 64, .50, .03},   {8, 64, .75, .05},
    {12, 36, .70, .03}, {12, 48, .55, .05},  {12, 72, .65, .04}, {12, 96, .75, .03},  {16, 48, .65, .03},
    {16, 48, .70, .05}, {16, 64, .60, .04},  {16, 96, .55, .05}, {16, 128, .65, .03}, {24, 72, .65, .04},
    {24, 96, .75, .05}, {24, 144, .50, .04}, {32, 96, .70, .04}, {32, 128, .60, .03}, {32, 256, .65, .05}};

Problem problem_of(const Profile& one) {
  constexpr double unit = 1'000'000;
  constexpr Bytes activation = 1000;
  const auto time = [](double units) { return static_cast<Nanoseconds>(unit * units + 0.5); };
  Problem problem{.devices = one.stages, .microbatches = one.microbatches, .costs = {}};
  problem.costs = uniform_costs(one.stages, 1, {time(1), time(.97), time(one.weight), activation, 430},
                                {.latency = time(one.hop)});
  problem.memory_limit.assign(static_cast<std::size_t>(one.stages), 2 * one.stages * activation);
  return problem;
}

int run(int argc, char** argv) {
  SynthesisOptions options{.objective = Objective::span};
  if (argc > 1) options.effort = std::atof(argv[1]);
  bench::stay_on_one_core();
  int near = 0;
  std::printf("stages microbatches     W   hop      found      bound  gap, %%  seconds\n");
  for (const Profile& one : profiles) {
    const Problem problem = problem_of(one);
    Synthesis found;
    const double seconds = bench::seconds_of([&] { found = synthesize(problem, options); });
    verify(found.schedule, found.problem);
    if (!holds(found.certificate, found.floor_problem, found.floor_placement))
      throw Error(ErrorKind::internal, "a bound that does not hold");
    near += found.gap() <= .0015 ? 1 : 0;
    std::printf("%6d %12d  %.2f  %.2f %10.3f %10.3f  %6.3f  %7.3f\n", one.stages, one.microbatches,
                one.weight, one.hop, 1e-6 * static_cast<double>(found.length),
                1e-6 * static_cast<double>(found.certificate.bound), 100 * found.gap(), seconds);
    std::fflush(stdout);
  }
  std::printf("%d of %zu within .15 %%\n", near, std::size(profiles));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
