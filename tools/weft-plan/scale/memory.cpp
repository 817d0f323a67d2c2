#include "weft-plan/scale/memory.hpp"

#include <algorithm>
#include <cmath>

#include "weft/zero/memory_plan.hpp"

namespace weft::scale {
namespace {

/// Bytes of a bucket of gradients, and twice that of the ring they pass through.
constexpr std::size_t bucket_bytes = std::size_t{64} << 20;

double bytes_of_layer(const Model& model, const Plan& plan, bool keeps_scores) {
  const auto t = static_cast<double>(plan.tensor);
  const double tokens =
      static_cast<double>(plan.micro_batch * model.sequence) / static_cast<double>(plan.context);
  const auto hidden = static_cast<double>(model.hidden);
  // Inputs of two norms, of attention and of the feed-forward layer, and masks of two dropouts.
  const double whole = 10 * tokens * hidden / (plan.sequence_parallel ? t : 1);
  // Queries, keys, values and context; what goes into the activation and comes out of it.
  const double cut = tokens *
                     (2 * hidden + 4 * static_cast<double>(model.kv_width()) + 2 * hidden +
                      2 * static_cast<double>(model.ffn) * (model.gated ? 3 : 2)) /
                     t;
  // Softmax, its dropout's mask, and what comes out of it.
  const double scores =
      keeps_scores ? 5 * static_cast<double>(model.heads) * static_cast<double>(model.sequence) * tokens / t
                   : 0;
  return whole + cut + scores;
}

/// What the loss keeps on the last stage: the logits as f32, and their exponentials.
double loss_bytes(const Model& model, const Plan& plan) {
  const double tokens =
      static_cast<double>(plan.micro_batch * model.sequence) / static_cast<double>(plan.context);
  return 8 * tokens * std::ceil(static_cast<double>(model.vocabulary) / static_cast<double>(plan.tensor));
}

zero::MemoryPlan training_state(const Model& model, const Plan& plan, double parameters) {
  const auto all = static_cast<std::int64_t>(std::llround(parameters));
  const std::int64_t layer = model.layer_parameters() / plan.tensor;
  const std::int64_t matrix = std::max(model.hidden * model.ffn, model.hidden * model.hidden) / plan.tensor;
  const zero::ModelSize size{.parameters = all,
                             .dtype = DataType::bf16,
                             .largest_parameter = std::min(matrix, all),
                             .largest_unit = std::clamp(layer, std::min(matrix, all), all),
                             .units = std::max<std::int64_t>(1, model.layers / plan.pipeline)};
  zero::MemoryOptions options{.stage = plan.zero, .bucket_bytes = bucket_bytes, .optimizer = zero::AdamW{}};
  if (plan.zero >= 2) options.bucket_ring_bytes = 2 * bucket_bytes;
  return zero::estimate_memory(size, static_cast<int>(plan.data() * plan.context), options);
}

std::vector<MemoryPart> parts_of(const Model& model, const Hardware& hardware, const Plan& plan,
                                 std::int64_t device, double peak) {
  const Software& software = software_of(hardware, plan);
  const double parameters = parameters_of_device(model, plan, device);
  std::vector<MemoryPart> parts;
  for (const zero::MemoryRow& row : training_state(model, plan, parameters).rows) {
    const bool gradients = row.content == zero::Content::gradients ||
                           row.content == zero::Content::gradient_shard ||
                           row.content == zero::Content::bucket_ring;
    const double factor = gradients ? software.gradient_bytes / 2 : 1;
    parts.push_back({name(row.content), factor * static_cast<double>(row.bytes)});
  }
  parts.push_back({"activations", peak});
  if (plan.recompute != Recompute::none)
    parts.push_back(
        {"recomputed layer", whole_layer_bytes(model, hardware, plan) - kept_bytes(model, hardware, plan)});
  if (device == plan.pipeline - 1) parts.push_back({"loss", loss_bytes(model, plan)});
  return parts;
}

double sum(const std::vector<MemoryPart>& parts) {
  double all = 0;
  for (const MemoryPart& part : parts) all += part.bytes;
  return all;
}

}  // namespace

double Memory::bytes() const {
  return sum(parts);
}

double parameters_of_device(const Model& model, const Plan& plan, std::int64_t device) {
  double elements = 0;
  for (std::int64_t stage = device; stage < plan.stages(); stage += plan.pipeline)
    elements += static_cast<double>(layers_of_stage(model, plan, stage) * model.layer_parameters());
  const bool last = device == plan.pipeline - 1;
  const auto words = static_cast<double>(model.vocabulary * model.hidden);
  if (device == 0) elements += words + (model.gated ? 0 : static_cast<double>(model.sequence * model.hidden));
  if (last && (plan.pipeline > 1 || !model.tied)) elements += words;
  return elements / static_cast<double>(plan.tensor);
}

double whole_layer_bytes(const Model& model, const Hardware& hardware, const Plan& plan) {
  return bytes_of_layer(model, plan, !software_of(hardware, plan).fused_attention);
}

double kept_bytes(const Model& model, const Hardware& hardware, const Plan& plan) {
  if (plan.recompute == Recompute::none) return whole_layer_bytes(model, hardware, plan);
  if (plan.recompute == Recompute::selective) return bytes_of_layer(model, plan, false);
  const double tokens =
      static_cast<double>(plan.micro_batch * model.sequence) / static_cast<double>(plan.context);
  return 2 * tokens * static_cast<double>(model.hidden) /
         static_cast<double>(plan.sequence_parallel ? plan.tensor : 1);
}

Memory memory_of(const Model& model, const Hardware& hardware, const Plan& plan,
                 const std::vector<double>& peaks) {
  Memory most;
  for (std::int64_t device = 0; device < plan.pipeline; ++device) {
    std::vector<MemoryPart> parts =
        parts_of(model, hardware, plan, device, peaks[static_cast<std::size_t>(device)]);
    if (most.parts.empty() || sum(parts) > most.bytes()) most = {device, std::move(parts)};
  }
  return most;
}

Memory least_memory(const Model& model, const Hardware& hardware, const Plan& plan) {
  const double kept = kept_bytes(model, hardware, plan);
  std::vector<double> peaks;
  for (std::int64_t device = 0; device < plan.pipeline; ++device) {
    std::int64_t fewest = model.layers;
    for (std::int64_t stage = device; stage < plan.stages(); stage += plan.pipeline)
      fewest = std::min(fewest, layers_of_stage(model, plan, stage));
    const std::int64_t held = std::min(plan.microbatches(), plan.pipeline - device);
    peaks.push_back(kept * static_cast<double>(held * fewest * plan.virtual_stages));
  }
  return memory_of(model, hardware, plan, peaks);
}

}  // namespace weft::scale
