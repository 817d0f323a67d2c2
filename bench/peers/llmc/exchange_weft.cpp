// llm.c's exchange on weft. llm.c has its gradients in one block by kind: all layers' qkvw, then all layers' attprojw. Backward finishes
// them by layer. So the layout, whose order is that of buckets, goes by layer, and gradients are reduced where they lie in the block.

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exchange.h"
#include "weft/gradient/gradient_reducer.hpp"

namespace {

using namespace weft;

struct Trainer {
  Communicator comm = connect(World::from_environment());
  std::vector<Buffer> blocks{};
  Stream compute{};
  std::map<const float*, ParamId> ids{};
  std::vector<View> gradients{}, means{};  // by parameter: in the block, and where this step's mean is
  std::optional<GradientReducer> reducer{};
};
std::unique_ptr<Trainer> here;

}  // namespace

void exchange_connect() {
  here = std::make_unique<Trainer>();
}
int exchange_rank() {
  return here->comm.rank();
}
int exchange_ranks() {
  return here->comm.size();
}
void* exchange_allocate(size_t bytes) {  // in memory that all ranks of the node reach
  here->blocks.push_back(
      here->comm.allocate(DataType::f32, static_cast<std::int64_t>(bytes / sizeof(float))));
  return here->blocks.back().view().data();
}

void exchange_parameters(float* gradients, float* values, const size_t* sizes, int kinds, size_t layers) {
  // Of llm.c's 16 kinds, 2 to 13 are there once a layer. The last two, of the final norm, come first in backward.
  const auto is_by_layer = [&](int kind) { return kind >= 2 && kind < kinds - 2; };
  std::vector<size_t> starts(static_cast<size_t>(kinds) + 1, 0);
  for (int kind = 0; kind < kinds; ++kind) starts[kind + 1] = starts[kind] + sizes[kind];
  std::vector<ParamSpec> specs;
  const auto add = [&](int kind, size_t layer) {
    const size_t count = sizes[kind] / (is_by_layer(kind) ? layers : 1);
    float* const gradient = gradients + starts[kind] + layer * count;
    here->ids[gradient] = ParamId{static_cast<std::int32_t>(specs.size())};
    here->gradients.emplace_back(gradient, static_cast<std::int64_t>(count), DataType::f32);
    specs.push_back({.name = "kind" + std::to_string(kind) + ".layer" + std::to_string(layer),
                     .count = static_cast<std::int64_t>(count),
                     .storage = values + starts[kind] + layer * count});
  };
  for (int kind = 0; kind < 2; ++kind) add(kind, 0);  // embeddings: backward adds to them last
  for (size_t layer = 0; layer < layers; ++layer) {
    for (int kind = 2; kind < kinds - 2; ++kind) add(kind, layer);
  }
  for (int kind = kinds - 2; kind < kinds; ++kind) add(kind, 0);
  here->means.resize(specs.size());
  const ParamLayout layout(DataType::f32, std::move(specs));
  constexpr std::size_t bucket_bytes = 1 << 20,
                        alone = 64 << 10;  // larger gradients are reduced where they lie
  here->reducer.emplace(here->comm, layout,
                        ReducerOptions{.buckets = plan_buckets(layout, bucket_bytes, alone)});
}

void exchange_begin() {
  here->reducer->begin_step();
}
void exchange_ready(const float* gradient) {
  const ParamId id = here->ids.at(gradient);
  here->means[index(id)] = here->reducer->mark_ready_in_place(id, here->gradients[index(id)], here->compute);
}
void exchange_finish() {
  here->reducer->finish_step(here->compute);
  here->compute.synchronize();
  for (size_t i = 0; i < here->means.size(); ++i) {  // small ones share a bucket, and were copied there
    if (here->means[i].data() != here->gradients[i].data())
      std::memcpy(here->gradients[i].data(), here->means[i].data(), here->means[i].size_bytes());
  }
}
void exchange_end() {
  here.reset();
}
