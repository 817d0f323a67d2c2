// The reduction kernel beside a copy of the same memory: bytes_per_second counts every byte read or written.
// `mean_of_two`: two buffers of 512 KiB, which a second-level cache of 1 MiB holds. `all_reduce_fresh`: two ranks as threads that have just written their buffers, as backward does; small
// buffers are faster by the effect of the cache.

#include <benchmark/benchmark.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "collectives/kernels/reduce_kernel.hpp"
#include "weft/collectives/communicator.hpp"

namespace {

using namespace weft;

void reduce_two(benchmark::State& state, DataType dtype) {
  const std::int64_t count = state.range(0) / static_cast<std::int64_t>(size_of(dtype));
  Buffer a = Buffer::on_host(dtype, count);
  Buffer b = Buffer::on_host(dtype, count);
  const std::array<const std::byte*, 2> sources{a.view().bytes(), b.view().bytes()};
  std::array<std::byte*, 2> destinations{a.view().bytes(), b.view().bytes()};
  for (auto _ : state) detail::reduce(sources, {destinations}, count, dtype, ReduceOp::sum);
  state.SetBytesProcessed(state.iterations() * 4 * state.range(0));
}

/// Floats, divided by 1, by 2, which is a multiplication, or by 3.
void mean_of_two(benchmark::State& state) {
  const std::int64_t count = (512 << 10) / 4;
  Buffer a = Buffer::on_host(DataType::f32, count);
  Buffer b = Buffer::on_host(DataType::f32, count);
  const std::array<const std::byte*, 2> sources{a.view().bytes(), b.view().bytes()};
  std::array<std::byte*, 2> destinations{a.view().bytes(), b.view().bytes()};
  const auto divisor = static_cast<double>(state.range(0));
  for (auto _ : state) detail::reduce(sources, {destinations}, count, DataType::f32, ReduceOp::avg, divisor);
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

void stay_on_core(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof(one),
                    &one);  // refused where the process may not use it; then the system places us
}

void all_reduce_fresh(benchmark::State& state) {
  run_as_threads(2, [&state](Communicator comm) {
    stay_on_core(comm.rank());
    Buffer data = comm.allocate(DataType::f32, state.range(0) / static_cast<std::int64_t>(sizeof(float)));
    Buffer running = comm.allocate(DataType::i32, 1);
    Stream stream;
    const auto one_more = [&](bool wanted) {
      if (comm.rank() == 0) running.as<std::int32_t>()[0] = wanted ? 1 : 0;
      comm.broadcast(running.view(), 0, stream).wait();
      return running.as<std::int32_t>()[0] != 0;
    };
    const auto measure = [&] {
      std::ranges::fill(data.as<float>(), 1.0F);
      comm.barrier(stream).wait();
      const auto begin = std::chrono::steady_clock::now();
      comm.all_reduce(data.view(), ReduceOp::avg, stream).wait();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    if (comm.rank() == 0) {
      for (auto _ : state) {
        one_more(true);
        state.SetIterationTime(measure());
      }
      one_more(false);
    } else {
      while (one_more(true)) measure();
    }
  });
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0));  // of one rank
}

BENCHMARK_CAPTURE(reduce_two, f32, DataType::f32)->Range(16 << 10, 64 << 20);
BENCHMARK_CAPTURE(reduce_two, bf16, DataType::bf16)->Range(16 << 10, 64 << 20);
BENCHMARK_CAPTURE(reduce_two, f16, DataType::f16)->Range(16 << 10, 64 << 20);
BENCHMARK(mean_of_two)->Arg(1)->Arg(2)->Arg(3);
BENCHMARK(copy)->Range(16 << 10, 64 << 20);
BENCHMARK(all_reduce_fresh)->RangeMultiplier(4)->Range(16 << 10, 64 << 20)->UseManualTime();

}  // namespace
