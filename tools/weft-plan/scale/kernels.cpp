// The kernels of a layer as Megatron-LM launches them; docs/scale.md has a table of them. T is the number of
// tokens of a micro-batch on a rank, h the hidden size, t the ranks of tensor parallelism.

#include "weft-plan/scale/kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "weft-plan/scale/collectives.hpp"

namespace weft::scale {
namespace {

// Tiles of the products, with what a smaller one loses to a lower reuse of its operands.
struct Tile {
  double m, n, share;
};
constexpr std::array tiles{Tile{256, 128, 1}, Tile{128, 256, 1}, Tile{128, 128, 0.95}, Tile{128, 64, 0.9025}};
/// Steps of the inner loop that a tile takes to load its first operands and to store its result.
constexpr double tile_overhead = 64;

double ceil_ratio(double a, double b) {
  return std::ceil(a / b - 1e-9);
}

/// The sizes that a rank has.
struct Shape {
  double tokens, hidden, query, kv, ffn, heads, head_width, sequence, batch, tensor, context;
  double full;  ///< elements of an activation that tensor parallelism leaves whole
  double gate;  ///< matrices into the feed-forward layer: 2 if it is gated
};

Shape shape_of(const Model& model, const Plan& plan) {
  Shape s{};
  s.tensor = static_cast<double>(plan.tensor);
  s.context = static_cast<double>(plan.context);
  s.batch = static_cast<double>(plan.micro_batch);
  s.sequence = static_cast<double>(model.sequence);
  s.tokens = s.batch * s.sequence / s.context;
  s.hidden = static_cast<double>(model.hidden);
  s.query = s.hidden / s.tensor;
  s.head_width = static_cast<double>(model.head_width());
  s.heads = static_cast<double>(model.heads) / s.tensor;
  s.kv = std::max(1.0, static_cast<double>(model.kv_heads) / s.tensor) * s.head_width;
  s.ffn = static_cast<double>(model.ffn) / s.tensor;
  s.gate = model.gated ? 2 : 1;
  s.full = s.tokens * s.hidden / (plan.sequence_parallel ? s.tensor : 1);
  return s;
}

/// The four products of a layer's forward pass.
std::array<Product, 4> products_of(const Shape& s, Precision precision) {
  return {{{.m = s.tokens, .n = s.query + 2 * s.kv, .k = s.hidden, .precision = precision},
           {.m = s.tokens, .n = s.hidden, .k = s.query, .precision = precision},
           {.m = s.tokens, .n = s.gate * s.ffn, .k = s.hidden, .precision = precision},
           {.m = s.tokens, .n = s.hidden, .k = s.ffn, .precision = precision}}};
}

void add_products(const Hardware& hardware, const std::array<Product, 4>& products, const Software& software,
                  Passes& passes) {
  for (const Product& one : products) {
    passes.forward.gemm += seconds(hardware, one);
    Product input = one;
    std::swap(input.n, input.k);
    passes.backward_input.gemm += seconds(hardware, input);
    Product weight = one;
    weight.m = one.k;
    weight.k = one.m;
    if (software.fuses_accumulation) weight.result_bytes = 2 * software.gradient_bytes;  // read and written
    passes.backward_weight.gemm += seconds(hardware, weight);
  }
}

/// Scores, softmax, dropout and context as kernels of their own; matrices of sequence x sequence go through
/// memory.
void add_plain_attention(const Hardware& hardware, const Shape& s, Passes& passes) {
  const double rows = s.sequence / s.context;
  const Product scores{.m = rows, .n = s.sequence, .k = s.head_width, .batch = s.batch * s.heads};
  const Product context{.m = rows, .n = s.head_width, .k = s.sequence, .batch = s.batch * s.heads};
  const double products = seconds(hardware, scores) + seconds(hardware, context);
  const double elements = s.batch * s.heads * rows * s.sequence;
  // softmax reads and writes, dropout too and writes a mask of a byte; backward dropout reads a mask, softmax
  // reads its result, too.
  passes.forward.attention += products + memory_seconds(hardware, elements * (4 * element_bytes + 1));
  passes.backward_input.attention +=
      2 * products + memory_seconds(hardware, elements * (5 * element_bytes + 1));
}

/// Dao 2023: half of the operations, for the mask is causal; backward takes 2.5 times as many.
void add_fused_attention(const Hardware& hardware, const Shape& s, Passes& passes) {
  const double operations = 4 * s.batch * s.heads * s.head_width * (s.sequence / s.context) * s.sequence / 2;
  passes.forward.attention += operations / hardware.attention;
  passes.backward_input.attention += 2.5 * operations / hardware.attention;
}

/// Bytes of the kernels that only read and write: norms, dropouts and sums over the whole hidden size; biases,
/// activation and copies over a rank's part.
void add_memory(const Hardware& hardware, const Shape& s, const Software& software, Passes& passes) {
  const double widths = s.query + 2 * s.kv;
  // Two norms (read, write), two of bias, dropout and residual (two reads, a write, a mask).
  double forward = s.full * (2 * 2 * element_bytes + 2 * (3 * element_bytes + 1));
  // Norms: read two and write one, and read two for their weights; dropout: read, mask, write; residual sums.
  double backward = s.full * (2 * 5 * element_bytes + 2 * (2 * element_bytes + 1) + 2 * 3 * element_bytes);
  if (software.fused_attention) {
    forward += s.tokens * element_bytes * (s.gate * s.ffn + s.ffn + 2 * (s.query + s.kv));
    backward += s.tokens * element_bytes * (2 * s.gate * s.ffn + s.ffn + 2 * (s.query + s.kv));
  } else {
    // Bias of the queries, keys and values; a copy of the context; activation.
    forward += s.tokens * element_bytes * (2 * widths + 2 * s.query + s.gate * s.ffn + s.ffn);
    // Activation; sums for the biases; copies of the context and of the queries, keys and values.
    backward +=
        s.tokens * element_bytes * (2 * s.gate * s.ffn + s.ffn + (s.ffn + widths) + 2 * s.query + 2 * widths);
  }
  passes.forward.memory += memory_seconds(hardware, forward);
  passes.backward_input.memory += memory_seconds(hardware, backward);
}

/// Two sums a pass, each an all_reduce, or a reduce_scatter and an all_gather of the same bytes.
void add_tensor_parallel(const Hardware& hardware, const Shape& s, const Plan& plan, const Software& software,
                         Passes& passes) {
  if (plan.tensor == 1) return;
  const Group group = group_of(hardware, {.ranks = plan.tensor, .stride = 1});
  const double bytes = element_bytes * s.tokens * s.hidden;
  const double half = all_gather(hardware, group, bytes);
  const double sum = plan.sequence_parallel ? 2 * half : all_reduce(hardware, group, bytes);
  if (software.tensor == TensorOverlap::chunked) {
    // The first of as many chunks as ranks has nothing to run beside. Backward gathers the inputs once more.
    const double rest = 1 - 1 / s.tensor;
    passes.forward.tensor += 2 * sum / s.tensor + exposed(hardware, 2 * sum * rest, passes.forward.gemm);
    passes.backward_input.tensor +=
        2 * sum / s.tensor + exposed(hardware, 2 * sum * rest, passes.backward_input.gemm);
    if (plan.sequence_parallel)
      passes.backward_weight.tensor += exposed(hardware, 2 * half, passes.backward_weight.gemm);
    return;
  }
  passes.forward.tensor += 2 * sum;
  if (software.tensor == TensorOverlap::none) {
    passes.backward_input.tensor += 2 * sum;
    return;
  }
  // Beside the gradient of the weights: the sums of the two layers that are cut by columns. With sequence
  // parallelism those are reduce_scatters; the gathers of the other two layers have nothing beside them.
  passes.backward_weight.tensor +=
      exposed(hardware, plan.sequence_parallel ? 2 * half : 2 * sum, passes.backward_weight.gemm);
  if (plan.sequence_parallel) passes.backward_input.tensor += 2 * half;
}

/// Keys and values of all parts of the sequence pass by, beside attention; backward also their gradients.
void add_context_parallel(const Hardware& hardware, const Shape& s, const Plan& plan, Passes& passes) {
  if (plan.context == 1) return;
  const Group group = group_of(hardware, {.ranks = plan.context, .stride = plan.tensor});
  const double gather = all_gather(hardware, group, element_bytes * s.batch * s.sequence * 2 * s.kv);
  passes.forward.context += exposed(hardware, gather, passes.forward.attention);
  passes.backward_input.context += exposed(hardware, 2 * gather, passes.backward_input.attention);
}

Work recomputed(Recompute recompute, const Work& forward) {
  switch (recompute) {
    case Recompute::none:
      return {};
    case Recompute::selective:
      return {.attention = forward.attention, .context = forward.context};
    case Recompute::full:
      return forward;
  }
  return {};
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  gemm += other.gemm;
  attention += other.attention;
  memory += other.memory;
  tensor += other.tensor;
  context += other.context;
  return *this;
}

Work operator*(double factor, Work work) {
  work.gemm *= factor;
  work.attention *= factor;
  work.memory *= factor;
  work.tensor *= factor;
  work.context *= factor;
  return work;
}

double memory_seconds(const Hardware& hardware, double bytes) {
  return bytes / (hardware.memory_rate * hardware.memory);
}

/// The best tile's whole waves over the multiprocessors, or the bytes, whichever takes longer.
double seconds(const Hardware& hardware, const Product& p) {
  const bool fp8 = p.precision == Precision::fp8;
  const double rate = fp8 ? hardware.fp8 * hardware.gemm_fp8 : hardware.bf16 * hardware.gemm;
  const auto processors = static_cast<double>(hardware.multiprocessors);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles) {
    const double count = ceil_ratio(p.m, tile.m) * ceil_ratio(p.n, tile.n) * p.batch;
    const double operations =
        ceil_ratio(count, processors) * processors * tile.m * tile.n * 2 * (p.k + tile_overhead);
    best = std::min(best, operations / (rate * tile.share));
  }
  const double operand = fp8 ? 1 : element_bytes;
  const double bytes = p.batch * (operand * (p.m * p.k + p.k * p.n) + p.result_bytes * p.m * p.n);
  return std::max(best, memory_seconds(hardware, bytes));
}

double exposed(const Hardware& hardware, double communication, double computation) {
  const double hidden = std::min(communication, computation);
  const double taken = std::min(1.0, hardware.communication_blocks / hardware.multiprocessors);
  return communication - hidden + taken * hidden;
}

Passes layer_passes(const Model& model, const Hardware& hardware, const Plan& plan) {
  const Software& software = software_of(hardware, plan);
  const Shape s = shape_of(model, plan);
  Passes passes;
  add_products(hardware, products_of(s, plan.precision), software, passes);
  software.fused_attention ? add_fused_attention(hardware, s, passes)
                           : add_plain_attention(hardware, s, passes);
  add_memory(hardware, s, software, passes);
  add_tensor_parallel(hardware, s, plan, software, passes);
  add_context_parallel(hardware, s, plan, passes);
  passes.recomputation = recomputed(plan.recompute, passes.forward);
  return passes;
}

Passes logits_passes(const Model& model, const Hardware& hardware, const Plan& plan) {
  const Software& software = software_of(hardware, plan);
  const Shape s = shape_of(model, plan);
  const double words = std::ceil(static_cast<double>(model.vocabulary) / s.tensor);
  const Product product{.m = s.tokens, .n = words, .k = s.hidden};
  const Product input{.m = s.tokens, .n = s.hidden, .k = words};
  const Product weight{
      .m = s.hidden,
      .n = words,
      .k = s.tokens,
      .result_bytes = software.fuses_accumulation ? 2 * software.gradient_bytes : element_bytes};
  Passes passes;
  passes.forward.gemm = seconds(hardware, product);
  passes.backward_input.gemm = seconds(hardware, input);
  passes.backward_weight.gemm = seconds(hardware, weight);
  // f32: to f32 (6), maximum (4), minus maximum (8), exponential and its sum (8); backward: gradient (8), to
  // 16 bits (6).
  passes.forward.memory = memory_seconds(hardware, s.tokens * words * 26);
  passes.backward_input.memory = memory_seconds(hardware, s.tokens * words * 14);
  if (plan.tensor > 1) {
    const Group group = group_of(hardware, {.ranks = plan.tensor, .stride = 1});
    passes.backward_input.tensor = all_reduce(hardware, group, element_bytes * s.tokens * s.hidden);
  }
  return passes;
}

}  // namespace weft::scale
