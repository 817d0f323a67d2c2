// The cost of the reducer in backward: mark_ready of every tensor of a step, without the reduction itself
// (one rank, whose gradients are their own mean).

#include <benchmark/benchmark.h>

#include "weft/weft.hpp"

namespace {

using namespace weft;

/// @param state.range(0) tensors, of a cache line each; range(1): 1 on a thread of its own, 0 inline
void ready(benchmark::State& state) {
  const auto tensors = static_cast<int>(state.range(0));
  std::vector<ParamSpec> specs;
  for (int i = 0; i < tensors; ++i) specs.push_back({text('p', i), 16});
  const Stream wire = state.range(1) == 1 ? Stream::queued() : Stream();
  GradientReducer reducer(self(), ParamLayout(DataType::f32, specs),
                          {.buckets = BucketBytes{1 << 20}, .wire = wire});
  Stream compute;
  for (auto _ : state) {
    state.PauseTiming();
    reducer.begin_step();
    state.ResumeTiming();
    for (int i = tensors - 1; i >= 0; --i) reducer.mark_ready(ParamId{i}, compute);
    state.PauseTiming();
    reducer.finish_step(compute);
    compute.synchronize();
    state.ResumeTiming();
  }
  state.counters["per_tensor"] =
      benchmark::Counter(static_cast<double>(tensors),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK(ready)->ArgNames({"tensors", "thread"})->ArgsProduct({{1000, 100'000}, {0, 1}});

}  // namespace
