#include "weft-plan/scale/plan.hpp"

#include <algorithm>
#include <array>

#include "core/base/round_up.hpp"
#include "core/memory/host_memory.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::scale {
namespace {

constexpr std::int64_t most_virtual_stages = 12;  // of what is taken where none are given

template <class Value, std::size_t count>
Value named(const char* option, std::string_view word, const std::array<Value, count>& values) {
  std::string all;
  for (const Value value : values) {
    if (word == name(value)) return value;
    all += text(all.empty() ? "" : " or ", name(value));
  }
  throw Error(ErrorKind::usage, text("--", option, " ", word, " is not ", all));
}

[[noreturn]] void refuse(const std::string& problem, const std::string& advice) {
  throw Error(ErrorKind::usage, problem, advice);
}

bool cuts(std::int64_t layers, std::int64_t stages, const Software& software) {
  return layers % stages == 0 || (software.shortens_ends && stages > 2 && (layers + 2) % stages == 0);
}

/// Numbers of devices whose stages divide the layers, as words.
std::string pipelines_of(const Model& model, const Plan& plan) {
  std::string all;
  for (std::int64_t devices = 1; devices * plan.virtual_stages <= model.layers + 2; ++devices) {
    if (cuts(model.layers, devices * plan.virtual_stages, software_named(plan.software)))
      all += text(all.empty() ? "" : ", ", devices);
  }
  return all.empty() ? "none" : all;
}

/// Divisors of `of` up to `most`, as words.
std::string divisors(std::int64_t of, std::int64_t most) {
  std::string all;
  for (std::int64_t one = 1; one <= std::min(of, most); ++one) {
    if (of % one == 0) all += text(all.empty() ? "" : ", ", one);
  }
  return all;
}

std::int64_t usual_virtual_stages(const Model& model, const Plan& plan, const Software& software) {
  if (!software.interleaves || plan.pipeline == 1 ||
      (!plan.schedule.empty() && plan.schedule != "interleaved"))
    return 1;
  if (plan.data() < 1 || plan.microbatches() % plan.pipeline != 0) return 1;
  for (std::int64_t v = most_virtual_stages; v > 1; --v) {
    if (cuts(model.layers, plan.pipeline * v, software)) return v;
  }
  return 1;
}

/// With these no product of counts is beyond 64 bits. Virtual stages may be left open.
void expect_counts(const Plan& plan) {
  constexpr std::int64_t most_gpus = 1 << 24, most_ways = 1 << 20, most_batch = std::int64_t{1} << 31;
  struct Count {
    const char* option;
    std::int64_t value, least, most;
  };
  const std::array<Count, 7> counts = {{{"gpus", plan.gpus, 1, most_gpus},
                                        {"tensor", plan.tensor, 1, most_ways},
                                        {"pipeline", plan.pipeline, 1, most_ways},
                                        {"context", plan.context, 1, most_ways},
                                        {"virtual-stages", plan.virtual_stages, 0, most_ways},
                                        {"micro-batch", plan.micro_batch, 1, most_ways},
                                        {"global-batch", plan.global_batch, 1, most_batch}}};
  for (const Count& one : counts) {
    if (one.value < one.least || one.value > one.most)
      refuse(text("--", one.option, " ", one.value, " is not a number from 1 to ", one.most), "");
  }
}

/// What is simulated: 64 bytes for what a device does with a microbatch, its actions and their times.
void expect_memory(const Plan& plan) {
  constexpr std::size_t of_each = 64;
  const std::size_t needed =
      static_cast<std::size_t>(plan.stages()) * static_cast<std::size_t>(plan.microbatches()) * of_each;
  const auto left = detail::memory_left();
  if (plan.pipeline > 1 && left && needed > *left)
    refuse(text("a schedule of ", plan.stages(), " stages and ", plan.microbatches(), " micro-batches takes ",
                needed, " bytes of memory or more, and ", *left, " are left"),
           "plan a smaller --global-batch: the bubble's share is that of a step's begin and end");
}

void expect_groups(const Model& model, const Hardware& hardware, const Plan& plan) {
  if (plan.tensor > hardware.gpus_per_node)
    refuse(text("--tensor ", plan.tensor, " is more than the ", hardware.gpus_per_node, " GPUs of a node of ",
                hardware.name),
           "its collectives are on every layer's way; give at most a node");
  const std::int64_t parts = plan.tensor * plan.pipeline * plan.context;
  if (plan.gpus % parts != 0)
    refuse(text("--gpus ", plan.gpus, " is no multiple of --tensor ", plan.tensor, " x --pipeline ",
                plan.pipeline, " x --context ", plan.context, " = ", parts),
           text("the nearest that are: ", std::max(parts, plan.gpus / parts * parts), " and ",
                detail::ceil_div(plan.gpus, parts) * parts));
  if (plan.gpus > hardware.gpus_per_node && plan.gpus % hardware.gpus_per_node != 0)
    refuse(text("--gpus ", plan.gpus, " is no whole number of nodes of ", hardware.gpus_per_node),
           "give a multiple");
  for (const auto& [option, value] : {std::pair("heads", model.heads), std::pair("ffn", model.ffn)}) {
    if (value % plan.tensor != 0)
      refuse(text("--tensor ", plan.tensor, " does not divide --", option, " ", value),
             text("allowed are ", divisors(value, hardware.gpus_per_node)));
  }
  if (model.sequence % (plan.context * (plan.sequence_parallel ? plan.tensor : 1)) != 0)
    refuse(text("--sequence ", model.sequence, " is not divided by --context ", plan.context,
                plan.sequence_parallel ? text(" x --tensor ", plan.tensor) : std::string()),
           "each rank has as many tokens");
  if (plan.sequence_parallel && plan.tensor == 1)
    refuse("--sequence-parallel has no effect: --tensor is 1", "leave it out");
}

void expect_batch(const Plan& plan) {
  const std::int64_t each = plan.data() * plan.micro_batch;
  if (plan.global_batch % each != 0)
    refuse(text("--global-batch ", plan.global_batch, " is no multiple of ", plan.data(),
                " data-parallel ranks x --micro-batch ", plan.micro_batch, " = ", each),
           text("the nearest that are: ", std::max(each, plan.global_batch / each * each), " and ",
                detail::ceil_div(plan.global_batch, each) * each));
}

void expect_stages(const Model& model, const Plan& plan) {
  if (plan.pipeline == 1 && plan.virtual_stages > 1)
    refuse(text("--virtual-stages ", plan.virtual_stages, " has no effect: --pipeline is 1"), "leave it out");
  if (plan.pipeline == 1 && plan.schedule != "1f1b")
    refuse(text("--schedule ", plan.schedule, " has no effect: --pipeline is 1"), "leave it out");
  if (!cuts(model.layers, plan.stages(), software_named(plan.software)))
    refuse(text("--layers ", model.layers, " are not divided by --pipeline ", plan.pipeline,
                " x --virtual-stages ", plan.virtual_stages, " = ", plan.stages(), " stages"),
           text("with --virtual-stages ", plan.virtual_stages, " allowed are --pipeline ",
                pipelines_of(model, plan)));
  if (plan.zero >= 2 && plan.pipeline > 1)
    refuse(text("--zero ", plan.zero, " with --pipeline ", plan.pipeline,
                " is not modelled: gradients of all micro-batches are summed before they are cut"),
           "give --zero 0 or 1, or --pipeline 1");
  if (plan.zero < 0 || plan.zero > 3) refuse(text("--zero ", plan.zero, " is not a number from 0 to 3"), "");
}

}  // namespace

const char* name(Recompute recompute) {
  constexpr std::array names{"none", "selective", "full"};
  return names[static_cast<std::size_t>(recompute)];
}

Recompute recompute_named(std::string_view word) {
  return named("recompute", word, std::array{Recompute::none, Recompute::selective, Recompute::full});
}

const char* name(Precision precision) {
  constexpr std::array names{"bf16", "fp8"};
  return names[static_cast<std::size_t>(precision)];
}

Precision precision_named(std::string_view word) {
  return named("dtype", word, std::array{Precision::bf16, Precision::fp8});
}

const Software& software_of(const Hardware& hardware, const Plan& plan) {
  if (!plan.software.empty()) return software_named(plan.software);
  const bool newer = plan.sequence_parallel || plan.recompute == Recompute::selective;
  if (hardware.default_software == "megatron-lm-2021" && newer) return software_named("megatron-lm-2022");
  return software_named(hardware.default_software);
}

Plan completed(const Model& model, const Hardware& hardware, Plan plan) {
  expect_counts(plan);
  const Software& software = software_of(hardware, plan);
  plan.software = software.name;
  if (plan.virtual_stages == 0) plan.virtual_stages = usual_virtual_stages(model, plan, software);
  if (plan.schedule.empty()) plan.schedule = plan.virtual_stages > 1 ? "interleaved" : "1f1b";
  return plan;
}

void expect_divides(const Model& model, const Hardware& hardware, const Plan& plan) {
  expect_whole(model);
  expect_counts(plan);
  if (plan.virtual_stages < 1) refuse("--virtual-stages 0 is not 1 or more", "");
  expect_groups(model, hardware, plan);
  expect_batch(plan);
  expect_stages(model, plan);
  expect_memory(plan);
  if (plan.precision == Precision::fp8 && hardware.fp8 == 0)
    refuse(text("--dtype fp8: ", hardware.name, " has no products of fp8"), "give bf16");
}

std::int64_t layers_of_stage(const Model& model, const Plan& plan, std::int64_t stage) {
  const std::int64_t stages = plan.stages();
  if (model.layers % stages == 0) return model.layers / stages;
  const bool at_an_end = stage == 0 || stage == stages - 1;
  return (model.layers + 2) / stages - (at_an_end ? 1 : 0);
}

}  // namespace weft::scale
