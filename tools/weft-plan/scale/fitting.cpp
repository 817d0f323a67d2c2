#include "weft-plan/scale/fitting.hpp"

#include <utility>

#include "weft-plan/scale/step.hpp"
#include "weft/core/error.hpp"

namespace weft::scale {
namespace {

using Change = std::pair<std::string, Plan>;

std::vector<Change> changes(const Hardware& hardware, const Plan& plan) {
  std::vector<Change> all;
  const auto add = [&](const std::string& words, auto change) {
    Plan other = plan;
    change(other);
    all.emplace_back(words, other);
  };
  if (!plan.sequence_parallel && plan.tensor > 1)
    add("--sequence-parallel", [](Plan& other) { other.sequence_parallel = true; });
  for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
    if (recompute > plan.recompute)
      add(text("--recompute ", name(recompute)), [=](Plan& other) { other.recompute = recompute; });
  }
  for (int stage = plan.zero + 1; stage <= 3; ++stage)
    add(text("--zero ", stage), [=](Plan& other) { other.zero = stage; });
  for (std::int64_t size = plan.micro_batch / 2; size >= 1; size /= 2)
    add(text("--micro-batch ", size), [=](Plan& other) { other.micro_batch = size; });
  for (std::int64_t ranks = 2 * plan.tensor; ranks <= hardware.gpus_per_node; ranks *= 2)
    add(text("--tensor ", ranks), [=](Plan& other) { other.tensor = ranks; });
  for (std::int64_t stages = 2 * plan.pipeline; stages <= 16 * plan.pipeline; stages *= 2)
    add(text("--pipeline ", stages), [=](Plan& other) { other.pipeline = stages; });
  return all;
}

}  // namespace

std::vector<std::string> what_would_fit(const Model& model, const Hardware& hardware, const Plan& plan) {
  std::vector<std::string> fitting;
  for (const auto& [words, other] : changes(hardware, plan)) {
    try {
      expect_divides(model, hardware, other);
      if (predict(model, hardware, other).memory.bytes() <= hardware.memory_bytes) fitting.push_back(words);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) throw;  // else it does not divide
    }
  }
  return fitting;
}

}  // namespace weft::scale
