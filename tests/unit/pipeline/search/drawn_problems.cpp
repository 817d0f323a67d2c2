#include "unit/pipeline/search/drawn_problems.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "weft/core/error.hpp"

namespace weft::test {
namespace {

double between(Draw& draw, double low, double high) {
  return low + (high - low) * draw.below(1 << 20) / (1 << 20);
}

}  // namespace

PipelineProblem draw_pipeline(Draw& draw, const DrawnFrom& from) {
  using namespace pipeline;
  constexpr double unit = 1e6;  // a millisecond, a megabyte
  std::vector<int> sizes{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
  std::erase_if(sizes, [&](int size) { return size > from.most_devices; });
  const int devices = sizes[static_cast<std::size_t>(draw.below(static_cast<int>(sizes.size())))];
  const int chunks = from.chunks > 0 ? from.chunks : draw.one_of({1, 2, 4});
  const double per_device = std::exp(between(draw, std::log(0.5), std::log(8)));
  PipelineProblem result{
      .problem = {.devices = devices,
                  .microbatches = std::max(1, static_cast<int>(std::lround(per_device * devices))),
                  .costs = {}},
      .objective = draw.below(2) == 0 ? Objective::makespan : Objective::span};

  const double input = between(draw, 0.7, 1.5), weight = between(draw, 0.4, 1.3);
  const double skew = draw.once_in(4) ? 0 : between(draw, 0, 0.5);
  const double last = draw.once_in(4) ? between(draw, 1.1, 1.6) : 1;
  const double wire = draw.once_in(3) ? 0 : between(draw, 0, 0.5);
  const double kept = draw.once_in(2) ? 1 : between(draw, 0.4, 1);
  const int stages = devices * chunks;
  const auto whole = [&](double value) { return static_cast<std::int64_t>(value * unit / chunks); };
  for (int s = 0; s < stages; ++s) {
    const double factor = between(draw, 1 - skew, 1 + skew) * (s + 1 == stages ? last : 1);
    result.problem.costs.stages.push_back({.forward = whole(factor),
                                           .backward_input = whole(factor * input),
                                           .backward_weight = whole(factor * weight),
                                           .activation = whole(1),
                                           .kept_for_weight = whole(kept)});
    if (s > 0)
      result.problem.costs.hops.push_back(
          {.latency = static_cast<Nanoseconds>(wire * unit * (draw.once_in(4) ? 2 : 1))});
  }
  result.memory = between(draw, from.least_memory, 3);
  const double microbatches = std::max(1.0, std::floor(result.memory * devices * 2) / 2);
  result.problem.memory_limit.assign(static_cast<std::size_t>(devices),
                                     std::max(static_cast<Bytes>(microbatches * unit), whole(1) * chunks));
  return result;
}

PipelineProblem draw_alike(Draw& draw) {
  using namespace pipeline;
  constexpr Nanoseconds unit = 10'000;
  constexpr Bytes activation = 1'000'000;
  const int devices = 2 + draw.below(15);
  StageCosts stage{.activation = activation, .kept_for_weight = activation};
  Hop hop;
  do {
    stage.forward = unit * (1 + draw.below(100));
    stage.backward_input = unit * (1 + draw.below(100));
    stage.backward_weight = unit * (1 + draw.below(100));
    hop.latency = unit * draw.below(static_cast<int>(3 * stage.backward_weight / unit) + 1);
  } while (stage.forward + 2 * hop.latency < stage.backward_weight);
  if (draw.once_in(2)) stage.kept_for_weight = activation * draw.below(100) / 100;
  PipelineProblem result{.problem = {.devices = devices,
                                     .microbatches = 2 * devices + 1 + draw.below(4 * devices),
                                     .costs = uniform_costs(devices, 1, stage, hop)},
                         .objective = draw.once_in(2) ? Objective::makespan : Objective::span,
                         .memory = 1};
  result.problem.memory_limit.assign(static_cast<std::size_t>(devices), devices * activation);
  return result;
}

std::string described(const PipelineProblem& drawn) {
  return text(drawn.problem.devices, " devices, ", drawn.problem.microbatches, " microbatches, ",
              drawn.problem.chunks(), " chunks, memory ", drawn.memory, ", ", name(drawn.objective));
}

}  // namespace weft::test
