#include "unit/tools/weft-plan/drawn_plans.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "weft-plan/scale/kernels.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::test {
namespace {

using scale::Hardware;
using scale::Plan;
using scale::Work;

Hardware without_links(Hardware hardware) {
  hardware.node = hardware.network = {.rate = 1e40, .latency = 0, .share = 1};
  hardware.send = 1;
  hardware.collective_latency = 0;
  return hardware;
}

double seconds_on(const DrawnPlan& drawn, const Hardware& hardware) {
  return predict(drawn.model, hardware, drawn.plan).seconds;
}

double alone(const Work& work) {
  return work.gemm + work.attention + work.memory;
}

struct Times {
  double forward, backward;
};

/// Of each stage.
std::vector<Times> times_of(const DrawnPlan& drawn) {
  const auto& [model, hardware, plan] = drawn;
  const scale::Passes layer = layer_passes(model, hardware, plan),
                      logits = logits_passes(model, hardware, plan);
  const scale::Software& software = software_of(hardware, plan);
  const auto factor = hardware.software.contains(software.name) ? hardware.software.at(software.name) : 1;
  std::vector<Times> all;
  for (std::int64_t s = 0; s < plan.stages(); ++s) {
    const auto layers = static_cast<double>(layers_of_stage(model, plan, s));
    Times one{
        layers * alone(layer.forward),
        layers * (alone(layer.backward_input) + alone(layer.backward_weight) + alone(layer.recomputation))};
    if (s + 1 == plan.stages()) {
      one.forward += alone(logits.forward);
      one.backward += alone(logits.backward_input) + alone(logits.backward_weight);
    }
    if (!software.fuses_accumulation && plan.microbatches() > 1)
      one.backward +=
          memory_seconds(hardware, layers * static_cast<double>(model.layer_matrices()) /
                                       static_cast<double>(plan.tensor) * 3 * software.gradient_bytes);
    all.push_back({factor * one.forward, factor * one.backward});
  }
  return all;
}

/// The end of the schedule: each entry begins when the one before it in its row and the one that it needs have
/// ended.
double makespan(const DrawnPlan& drawn, const std::vector<Times>& times) {
  const Plan& plan = drawn.plan;
  if (plan.pipeline == 1)
    return static_cast<double>(plan.microbatches()) * (times[0].forward + times[0].backward);
  pipeline::Problem problem{
      .devices = static_cast<int>(plan.pipeline),
      .microbatches = static_cast<int>(plan.microbatches()),
      .costs = pipeline::uniform_costs(static_cast<int>(plan.pipeline), static_cast<int>(plan.virtual_stages),
                                       {.forward = 1000, .backward_input = 1000, .backward_weight = 1000})};
  const pipeline::Schedule schedule = pipeline::make_named(plan.schedule, problem);
  const auto stages = static_cast<std::size_t>(plan.stages());
  const auto count = static_cast<std::size_t>(plan.microbatches());
  std::vector<std::vector<double>> forward(stages, std::vector<double>(count)), backward = forward;
  double last = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& row : schedule.rows) {
      double free = 0;
      for (const pipeline::Action& action : row) {
        const auto s = static_cast<std::size_t>(action.stage),
                   m = static_cast<std::size_t>(action.microbatch);
        const bool is_forward = action.type == pipeline::ActionType::forward;
        const double needed = is_forward ? (s == 0 ? 0 : forward[s - 1][m])
                                         : (s + 1 == stages ? forward[s][m] : backward[s + 1][m]);
        const double end = std::max(free, needed) + (is_forward ? times[s].forward : times[s].backward);
        double& known = is_forward ? forward[s][m] : backward[s][m];
        changed = changed || end != known;
        known = free = end;
        last = std::max(last, end);
      }
    }
    if (changed) last = 0;
  }
  return last;
}

}  // namespace

DrawnPlan draw_plan(Draw& draw) {
  for (;;) {
    DrawnPlan drawn;
    drawn.hardware = scale::hardware_named(draw.one_of({"a100-80g", "h100-sxm"})).hardware;
    scale::Model& model = drawn.model;
    model.hidden = 128 * draw.one_of({4, 8, 24, 40, 64, 96, 160});
    model.heads = model.hidden / draw.one_of({64, 128});
    model.kv_heads = draw.once_in(3) ? std::max<std::int64_t>(1, model.heads / 8) : model.heads;
    model.gated = draw.once_in(3);
    model.tied = !draw.once_in(3);
    model.ffn = model.hidden * draw.one_of({2, 4});
    model.vocabulary = draw.one_of({32000, 51200, 128256});
    model.sequence = draw.one_of({1024, 2048, 4096, 8192});
    Plan& plan = drawn.plan;
    plan.tensor = draw.one_of({1, 2, 4, 8});
    plan.pipeline = draw.one_of({1, 1, 2, 4, 8, 16});
    plan.context = draw.one_of({1, 1, 1, 2, 4});
    plan.virtual_stages = plan.pipeline > 1 ? draw.one_of({1, 1, 2, 4}) : 1;
    model.layers = plan.stages() * (1 + draw.below(3));
    const std::int64_t data = draw.one_of({1, 2, 8, 32});
    plan.gpus = plan.tensor * plan.pipeline * plan.context * data;
    plan.micro_batch = draw.one_of({1, 2, 4});
    plan.global_batch = data * plan.micro_batch * (1 + draw.below(24));
    plan.zero = plan.pipeline > 1 ? draw.below(2) : draw.below(4);
    plan.recompute =
        draw.one_of({scale::Recompute::none, scale::Recompute::selective, scale::Recompute::full});
    plan.sequence_parallel = plan.tensor > 1 && draw.once_in(2);
    if (drawn.hardware.fp8 > 0 && draw.once_in(3)) plan.precision = scale::Precision::fp8;
    const auto& software = scale::all_software();
    plan.software = software[static_cast<std::size_t>(draw.below(static_cast<int>(software.size())))].name;
    if (plan.pipeline > 1)
      plan.schedule = plan.virtual_stages > 1 ? draw.one_of({"interleaved", "looped-bfs"})
                                              : draw.one_of({"1f1b", "gpipe"});
    plan = completed(model, drawn.hardware, plan);
    try {
      expect_divides(model, drawn.hardware, plan);
      return drawn;
    } catch (const Error&) {  // another
    }
  }
}

double computed_alone(const DrawnPlan& drawn) {
  double update = 0;
  for (std::int64_t d = 0; d < drawn.plan.pipeline; ++d)
    update = std::max(update, parameters_of_device(drawn.model, drawn.plan, d));
  if (drawn.plan.zero > 0) update /= static_cast<double>(drawn.plan.data() * drawn.plan.context);
  return makespan(drawn, times_of(drawn)) + memory_seconds(drawn.hardware, update * 62);
}

std::string what_fails(const DrawnPlan& drawn) {
  const scale::Step step = predict(drawn.model, drawn.hardware, drawn.plan);
  double sum = 0;
  for (const scale::Part& part : step.parts) {
    sum += part.seconds;
    if (!(part.seconds >= -1e-7)) return text(part.name, " takes ", part.seconds, " s");
  }
  if (!(std::abs(sum - step.seconds) <= 1e-9 * sum))
    return text("parts of ", sum, " s in ", step.seconds, " s");
  if (!(step.low <= step.seconds && step.seconds <= step.high)) return "the interval does not hold the value";

  const std::vector<std::pair<const char*, std::function<void(Hardware&)>>> faster = {
      {"NVLink", [](Hardware& h) { h.node.rate *= 1.5; }},
      {"NVLink's latency", [](Hardware& h) { h.node.latency /= 2; }},
      {"a network", [](Hardware& h) { h.network.rate *= 1.5; }},
      {"the network's latency", [](Hardware& h) { h.network.latency /= 2; }},
      {"sends", [](Hardware& h) { h.send *= 1.5; }},
      {"beginning", [](Hardware& h) { h.collective_latency /= 2; }},
      {"memory", [](Hardware& h) { h.memory_rate *= 1.5; }},
      {"bf16", [](Hardware& h) { h.bf16 *= 1.5; }},
      {"fp8", [](Hardware& h) { h.fp8 *= 1.5; }},
      {"attention", [](Hardware& h) { h.attention *= 1.5; }}};
  for (const auto& [what, change] : faster) {
    Hardware hardware = drawn.hardware;
    change(hardware);
    const double seconds = seconds_on(drawn, hardware);
    if (seconds > step.seconds * (1 + 1e-9))
      return text(what, " is faster, and a step takes ", seconds, " s and not ", step.seconds, " s");
  }
  const double free = seconds_on(drawn, without_links(drawn.hardware));
  const double computed = computed_alone(drawn);
  // Costs in whole nanoseconds, along a path of so many entries.
  const double rounding = 1e-9 * static_cast<double>(4 * drawn.plan.stages() * drawn.plan.microbatches());
  if (std::abs(free - computed) > 1e-6 * computed + rounding)
    return text("on links that cost nothing a step takes ", free, " s, and its computations ", computed,
                " s");
  if (step.seconds < free * (1 - 1e-9))
    return text("links make the step shorter: ", step.seconds, " s and ", free, " s");
  return "";
}

}  // namespace weft::test
