// What a buffer of the node heap costs: allocating and freeing it, with its memory kept, zeroed, and as malloc() does. Nothing is written.
//
//   bench_heap --benchmark_enable_random_interleaving=true --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <vector>

#include "weft/core/node_heap.hpp"

namespace {

using namespace weft;

std::shared_ptr<NodeHeap> heap() {
  static const auto all = NodeHeap::create(std::size_t{4} << 30);
  return all;
}

/// As many others as a model has tensors lie around it, half of them freed again.
void allocate_and_free(benchmark::State& state, Contents contents) {
  const auto shared = heap();
  std::vector<Buffer> others;
  for (int i = 0; i < 1000; ++i) others.push_back(shared->allocate(DataType::u8, 64 << 10, Contents::any));
  for (std::size_t i = 0; i < others.size(); i += 2) others[i] = Buffer();
  for (auto _ : state) {
    Buffer buffer = shared->allocate(DataType::u8, state.range(0), contents);
    benchmark::DoNotOptimize(buffer.view().data());
  }
}

void kept(benchmark::State& state) {
  allocate_and_free(state, Contents::any);
}
void zeroed(benchmark::State& state) {
  allocate_and_free(state, Contents::zeroed);
}
void with_malloc(benchmark::State& state) {
  for (auto _ : state) {
    void* memory = std::malloc(static_cast<std::size_t>(state.range(0)));
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  }
}

/// Bytes a second that trim() gives back.
void trim(benchmark::State& state) {
  const auto shared = heap();
  for (auto _ : state) {
    state.PauseTiming();
    shared->allocate(DataType::u8, state.range(0), Contents::any);
    state.ResumeTiming();
    benchmark::DoNotOptimize(shared->trim());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

constexpr std::int64_t kib = 1 << 10;
BENCHMARK(kept)->Arg(4 * kib)->Arg(64 * kib)->Arg(1024 * kib)->Arg(16 * 1024 * kib)->ThreadRange(1, 2);
BENCHMARK(zeroed)->Arg(4 * kib)->Arg(64 * kib)->Arg(1024 * kib)->Arg(16 * 1024 * kib);
BENCHMARK(with_malloc)->Arg(4 * kib)->Arg(64 * kib)->Arg(1024 * kib)->Arg(16 * 1024 * kib);
BENCHMARK(trim)->Arg(1024 * 1024 * kib)->Iterations(3)->Unit(benchmark::kMillisecond);

}  // namespace
