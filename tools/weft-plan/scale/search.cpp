#include "weft-plan/scale/search.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "weft/core/error.hpp"

namespace weft::scale {
namespace {

struct Bounded {
  Plan plan;
  double least = 0;
};

std::vector<std::int64_t> powers_of_two(std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t one = 1; one <= most; one *= 2) all.push_back(one);
  return all;
}

std::vector<std::int64_t> divisors_of(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t one = 1; one <= std::min(number, most); ++one) {
    if (number % one == 0) all.push_back(one);
  }
  return all;
}

bool divides(const Model& model, const Hardware& hardware, const Plan& plan) {
  const std::int64_t parts = plan.tensor * plan.pipeline * plan.context;
  if (plan.gpus % parts != 0 || plan.global_batch % (plan.data() * plan.micro_batch) != 0) return false;
  try {
    expect_divides(model, hardware, plan);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    return false;
  }
}

/// Calls `take` with every combination.
void each_plan(const Space& space, const std::function<void(const Plan&)>& take) {
  Plan plan = space.base;
  for (const std::int64_t tensor : space.tensor) {
    for (const std::int64_t pipeline : space.pipeline) {
      for (const std::int64_t chunks : space.virtual_stages) {
        for (const std::int64_t size : space.micro_batch) {
          for (const int zero : space.zero) {
            for (const Recompute recompute : space.recompute) {
              for (const bool sequence : space.sequence_parallel) {
                plan.tensor = tensor;
                plan.pipeline = pipeline;
                plan.virtual_stages = chunks;
                plan.micro_batch = size;
                plan.zero = zero;
                plan.recompute = recompute;
                plan.sequence_parallel = sequence;
                take(plan);
              }
            }
          }
        }
      }
    }
  }
}

std::vector<Bounded> bounded_plans(const Model& model, const Hardware& hardware, const Space& space) {
  std::vector<Bounded> all;
  each_plan(space, [&](const Plan& open) {
    // The groups of Megatron-LM's interleaved schedule have as many micro-batches as there are devices.
    if (open.virtual_stages > 1 &&
        (open.pipeline == 1 || open.gpus % (open.tensor * open.pipeline * open.context) != 0))
      return;
    const Plan plan = completed(model, hardware, open);
    if (!divides(model, hardware, plan)) return;
    if (plan.virtual_stages > 1 && plan.microbatches() % plan.pipeline != 0) return;
    all.push_back({plan, least_seconds(model, hardware, plan)});
  });
  std::ranges::stable_sort(all, {}, &Bounded::least);
  return all;
}

/// What a plan loses to the best in the part in which it loses most.
void say_why(const Candidate& best, Candidate& loser) {
  const double behind = loser.step.seconds - best.step.seconds;
  for (std::size_t i = 0; i < loser.step.parts.size(); ++i) {
    double other = 0;
    for (const Part& part : best.step.parts)
      other += part.name == loser.step.parts[i].name ? part.seconds : 0;
    const double more = loser.step.parts[i].seconds - other;
    if (more <= loser.loses_seconds) continue;
    loser.loses_by = loser.step.parts[i].name;
    loser.loses_seconds = more;
    const double left = loser.step.parts[i].seconds - behind;
    loser.faster = left > 0 ? loser.step.parts[i].seconds / left : 0;
  }
}

}  // namespace

Space space_of(const Model& model, const Hardware& hardware, const Plan& plan, const Fixed& fixed) {
  constexpr std::int64_t most_sequences = 16;
  Space space{.base = plan};
  space.base.schedule.clear();
  using Numbers = std::vector<std::int64_t>;
  space.tensor = fixed.tensor ? Numbers{plan.tensor} : powers_of_two(hardware.gpus_per_node);
  space.pipeline = fixed.pipeline ? Numbers{plan.pipeline} : divisors_of(model.layers, plan.gpus);
  space.virtual_stages = fixed.virtual_stages ? Numbers{plan.virtual_stages} : divisors_of(model.layers, 12);
  space.micro_batch = fixed.micro_batch ? Numbers{plan.micro_batch} : powers_of_two(most_sequences);
  space.zero = fixed.zero ? std::vector{plan.zero} : std::vector{0, 1, 2, 3};
  space.recompute = fixed.recompute ? std::vector{plan.recompute}
                                    : std::vector{Recompute::none, Recompute::selective, Recompute::full};
  space.sequence_parallel =
      fixed.sequence_parallel ? std::vector<bool>{plan.sequence_parallel} : std::vector<bool>{false, true};
  return space;
}

Search search(const Model& model, const Hardware& hardware, const Space& space, std::size_t most) {
  Search result;
  const std::vector<Bounded> plans = bounded_plans(model, hardware, space);
  result.plans = std::ssize(plans);
  if (plans.empty())
    throw Error(ErrorKind::usage,
                text("no plan for ", space.base.gpus, " GPUs and a batch of ", space.base.global_batch,
                     " sequences divides ", model.layers, " layers and ", model.heads, " heads"),
                "give another number of GPUs or another batch");
  for (const Bounded& one : plans) {
    if (result.best.size() == most && one.least >= result.best.back().step.seconds) break;
    if (least_memory(model, hardware, one.plan).bytes() > hardware.memory_bytes) {
      ++result.too_large;
      continue;
    }
    ++result.predicted;
    Step step = predict(model, hardware, one.plan);
    if (step.memory.bytes() > hardware.memory_bytes) {
      ++result.too_large;
      continue;
    }
    const auto place = std::ranges::upper_bound(result.best, step.seconds, {},
                                                [](const Candidate& other) { return other.step.seconds; });
    result.best.insert(place, Candidate{.plan = one.plan, .step = std::move(step)});
    if (result.best.size() > most) result.best.pop_back();
  }
  for (std::size_t i = 1; i < result.best.size(); ++i) say_why(result.best.front(), result.best[i]);
  return result;
}

}  // namespace weft::scale
