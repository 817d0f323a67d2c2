// Pipelines drawn at random, and a schedule found for each: valid, its bound checked, and by the objective
// asked for no longer than any named schedule that fits the same memory.
//
//   soak_synthesis SEED COUNT [alike]    prints a line per class: how often strictly shorter than the best
//                                        named schedule, by how much, and how far from the bound; ends with 0
//                                        when all held. alike: all stages are, in the memory of 1F1B

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "unit/pipeline/search/drawn_problems.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/simulate.hpp"
#include "weft/pipeline/synthesize.hpp"
#include "weft/pipeline/verify.hpp"

namespace {

using namespace weft;
using namespace weft::pipeline;

struct Class {
  std::vector<double> gaps;
  std::vector<double> gains;  // over the best named schedule, where one fits
  int shorter = 0, proved = 0;
};

std::optional<Nanoseconds> length_of(const NamedSchedule& named, const Problem& problem,
                                     Objective objective) {
  if (!named.suits(problem)) return std::nullopt;
  try {
    const Schedule schedule = named.make(problem);
    const Prediction predicted = simulate(schedule, problem);
    if (!predicted.fits(problem)) return std::nullopt;
    return predicted.length(objective);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    return std::nullopt;
  }
}

/// The shortest named schedule on as many chunks as the problem has, or fewer.
std::optional<Nanoseconds> best_named(const Problem& given, Objective objective) {
  std::optional<Nanoseconds> best;
  for (int chunks = 1; chunks <= given.chunks(); chunks *= 2) {
    Problem problem = given;
    problem.costs = joined(given.costs, given.devices * chunks);
    for (const NamedSchedule& named : named_schedules()) {
      const auto length = length_of(named, problem, objective);
      if (length && (!best || *length < *best)) best = length;
    }
  }
  return best;
}

std::string class_of(const test::PipelineProblem& drawn) {
  return text(drawn.objective == Objective::makespan ? "makespan" : "span    ", "  chunks ",
              drawn.problem.chunks(), "  memory ",
              drawn.memory < 1     ? "0.4 to 1"
              : drawn.memory < 1.5 ? "1 to 1.5"
                                   : "1.5 to 3");
}

std::string class_of_alike(const test::PipelineProblem& drawn) {
  const StageCosts& stage = drawn.problem.costs.stages[0];
  const Nanoseconds there_and_back = 2 * drawn.problem.costs.hops[0].latency;
  return text(drawn.objective == Objective::makespan ? "makespan" : "span    ",
              stage.kept_for_weight == stage.activation ? "  W needs all " : "  W needs part",
              there_and_back <= stage.backward_weight       ? "  2c <= W "
              : there_and_back <= 2 * stage.backward_weight ? "  2c <= 2W"
                                                            : "  2c > 2W ");
}

/// @return what did not hold, or ""
std::string tried(const test::PipelineProblem& drawn, Class& figures) {
  const Synthesis found = synthesize(drawn.problem, {.objective = drawn.objective});
  if (const auto fault = find_fault(found.schedule, found.problem)) return "invalid: " + fault->what;
  if (!holds(found.certificate, found.floor_problem, found.floor_placement)) return "its bound does not hold";
  if (found.length < found.certificate.bound) return "shorter than its bound";
  figures.gaps.push_back(found.gap());
  figures.proved += found.length == found.certificate.bound ? 1 : 0;
  if (const auto named = best_named(drawn.problem, drawn.objective)) {
    if (found.length > *named) return text("longer than a named schedule: ", found.length, " and ", *named);
    figures.shorter += found.length < *named ? 1 : 0;
    figures.gains.push_back(1 - static_cast<double>(found.length) / static_cast<double>(*named));
  }
  return "";
}

double quantile(std::vector<double> values, double at) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(at * static_cast<double>(values.size())))];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

void print(const std::string& name, const Class& one) {
  const auto per_cent = [](double share) { return 100 * share; };
  const auto count = static_cast<double>(one.gaps.size());
  std::printf(
      "%s  %5zu: shorter than all named in %5.1f %%, by %4.1f %% in the mean; "
      "from the bound median %5.2f %%, 95th %5.2f %%, most %5.2f %%; proved shortest %5.1f %%\n",
      name.c_str(), one.gaps.size(),
      per_cent(one.gains.empty() ? 0 : one.shorter / static_cast<double>(one.gains.size())),
      per_cent(mean(one.gains)), per_cent(quantile(one.gaps, 0.5)), per_cent(quantile(one.gaps, 0.95)),
      per_cent(quantile(one.gaps, 1)), per_cent(one.proved / count));
}

}  // namespace

int main(int argc, char** argv) {
  const bool alike = argc == 4 && std::string(argv[3]) == "alike";
  if (argc != 3 && !alike) {
    std::fprintf(stderr, "usage: soak_synthesis SEED COUNT [alike]\n");
    return 42;
  }
  const std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  std::map<std::string, Class> classes;
  Class asked;  // one chunk, as much memory as 1F1B or more
  int failed = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    test::Draw draw(seed * 1'000'003 + i);
    const test::PipelineProblem drawn = alike ? test::draw_alike(draw) : test::draw_pipeline(draw);
    Class one;
    const std::string problem = tried(drawn, one);
    if (!problem.empty()) {
      ++failed;
      std::printf("FAILED: number %llu (%s): %s\n", static_cast<unsigned long long>(i),
                  described(drawn).c_str(), problem.c_str());
      continue;
    }
    const auto add = [&one](Class& sum) {
      sum.gaps.insert(sum.gaps.end(), one.gaps.begin(), one.gaps.end());
      sum.gains.insert(sum.gains.end(), one.gains.begin(), one.gains.end());
      sum.shorter += one.shorter;
      sum.proved += one.proved;
    };
    add(classes[alike ? class_of_alike(drawn) : class_of(drawn)]);
    if (!alike && drawn.problem.chunks() == 1 && drawn.memory >= 1) add(asked);
  }
  for (const auto& [name, one] : classes) print(name, one);
  if (!asked.gaps.empty()) print("one chunk, memory 1 or more     ", asked);
  std::printf("%llu pipelines, %d failed\n", static_cast<unsigned long long>(count), failed);
  return failed == 0 ? 0 : 1;
}
