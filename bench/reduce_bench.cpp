// The reduction kernel beside a copy of the same memory: bytes_per_second counts every byte read or written.

#include <benchmark/benchmark.h>

#include <array>
#include <cstring>

#include "collectives/algorithms/reduce_kernel.hpp"
#include "weft/core/buffer.hpp"

namespace {

using namespace weft;

void reduce_two(benchmark::State& state, DataType dtype) {
  const std::int64_t count = state.range(0) / static_cast<std::int64_t>(size_of(dtype));
  Buffer a = Buffer::on_host(dtype, count);
  Buffer b = Buffer::on_host(dtype, count);
  const std::array<const std::byte*, 2> sources{a.view().bytes(), b.view().bytes()};
  std::array<std::byte*, 2> destinations{a.view().bytes(), b.view().bytes()};
  for (auto _ : state) detail::reduce(sources, destinations, count, dtype, ReduceOp::sum);
  state.SetBytesProcessed(state.iterations() * 4 * state.range(0));
}

void copy(benchmark::State& state) {
  Buffer a = Buffer::on_host(DataType::u8, state.range(0));
  Buffer b = Buffer::on_host(DataType::u8, state.range(0));
  for (auto _ : state) {
    std::memcpy(a.view().data(), b.view().data(), a.size_bytes());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0));
}

BENCHMARK_CAPTURE(reduce_two, f32, DataType::f32)->Range(16 << 10, 64 << 20);
BENCHMARK_CAPTURE(reduce_two, bf16, DataType::bf16)->Range(16 << 10, 64 << 20);
BENCHMARK_CAPTURE(reduce_two, f16, DataType::f16)->Range(16 << 10, 64 << 20);
BENCHMARK(copy)->Range(16 << 10, 64 << 20);

}  // namespace
