// What metrics cost: of an operation, of a step, of a bucket, of an account, and of a scrape.
//
//   bench_meter

#include <benchmark/benchmark.h>

#include <algorithm>

#include "collectives/diagnosis/counters.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

/// What a communicator notes of an operation that completes in its call, the meter's numbers included.
void operation(benchmark::State& state) {
  detail::OperationLog log("world", {0}, 0);
  detail::Operation one{.kind = Collective::all_reduce, .count = 1000};
  for (auto _ : state) {
    ++one.number;
    log.done_at_once(log.issued(detail::OperationLog::Sequence::host, one, 4000));
  }
}
BENCHMARK(operation);

/// What a reducer adds after a step with 32 buckets.
void step_of_32_buckets(benchmark::State& state) {
  const Communicator comm = self();
  detail::Counters& counters = detail::counters(comm);
  detail::Growth exposed;
  double waited = 0;
  const auto began = detail::Counters::Clock::now();
  for (auto _ : state) {
    for (int bucket = 0; bucket < 32; ++bucket) {
      counters.gradient_raw_bytes.add(1000);
      counters.gradient_wire_bytes.add(500);
    }
    counters.gradients_exposed.add(exposed.of(waited += 0.001));
    counters.step_finished(&counters, began);
  }
}
BENCHMARK(step_of_32_buckets);

/// What the thread that answers a scraper does, before it is text.
void read(benchmark::State& state) {
  Communicator comm = self();
  std::vector<float> data(8);
  const Stream stream;
  for (int i = 0; i < 2000; ++i) comm.all_reduce(View(std::span(data)), ReduceOp::sum, stream);
  for (auto _ : state) benchmark::DoNotOptimize(comm.meter().read());
}
BENCHMARK(read);

std::vector<ParamSpec> parameters() {
  std::vector<ParamSpec> result;
  for (int i = 0; i < 32; ++i) result.push_back({text("weight", i), 64});
  return result;
}

/// An account of 64 steps with 32 buckets on 2 ranks, for each step: the median.
void account_for_each_of_64_steps(benchmark::State& state) {
  const ParamLayout layout(DataType::f32, parameters());
  const auto iterations = static_cast<int>(state.max_iterations);
  std::atomic<double> median{0};
  run_as_threads(2, [&](Communicator comm) {
    GradientReducer reducer(comm, layout, {.buckets = BucketBytes{256}});
    Stream compute;
    std::vector<double> seconds;
    for (int i = 0; i < iterations; ++i) {
      for (int step = 0; step < 64; ++step) {
        reducer.begin_step();
        for (int id = 31; id >= 0; --id) reducer.mark_ready(ParamId{id}, compute);
        reducer.finish_step(compute);
      }
      const auto begin = detail::Counters::Clock::now();
      benchmark::DoNotOptimize(reducer.account());
      seconds.push_back(std::chrono::duration<double>(detail::Counters::Clock::now() - begin).count());
    }
    std::ranges::sort(seconds);
    if (comm.rank() == 0) median = seconds[seconds.size() / 2];
  });
  for (auto _ : state) state.SetIterationTime(median / 64);
}
BENCHMARK(account_for_each_of_64_steps)->UseManualTime()->Iterations(200);

}  // namespace
