// Codecs beside a copy of the same memory: bytes_per_second counts every byte read or written, f32 on one
// side and the code on the other. A call encodes 4 Mi elements of log-normal gradients, which fit only the
// last-level cache, or 64 Ki, which fit the second.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "weft/compression/error_feedback.hpp"
#include "weft/core/buffer.hpp"

namespace {

using namespace weft;

Buffer gradients(std::int64_t count) {
  Buffer values = Buffer::on_host(DataType::f32, count);
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (float& value : values.as<float>()) value = 1e-4F * std::exp(2 * normal(engine)) * normal(engine);
  return values;
}

void code(benchmark::State& state, const char* name, bool encodes, Into into) {
  const std::int64_t count = state.range(0);
  const auto codec = codec_named(name);
  Buffer values = gradients(count);
  Buffer bytes = Buffer::on_host(DataType::u8, codec->encoded_bytes(count));
  const std::span encoded(bytes.view().bytes(), bytes.size_bytes());
  codec->encode(encoded, values.as<float>(), {});
  for (auto _ : state) {
    if (encodes) {
      codec->encode(encoded, values.as<float>(), {});
    } else {
      codec->decode(values.as<float>(), encoded, {}, into);
    }
    benchmark::ClobberMemory();
  }
  const auto moved =
      static_cast<std::int64_t>(values.size_bytes() * (into == Into::set ? 1 : 2) + bytes.size_bytes());
  state.SetBytesProcessed(state.iterations() * moved);
  state.counters["elements"] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
}

void encode(benchmark::State& state, const char* name) {
  code(state, name, true, Into::set);
}
void decode(benchmark::State& state, const char* name) {
  code(state, name, false, Into::set);
}
void add(benchmark::State& state, const char* name) {
  code(state, name, false, Into::add);
}

/// As a hook does: tile by tile, adds the residual, encodes, and keeps the new residual.
void feedback(benchmark::State& state, const char* name, KeptAs kept) {
  constexpr std::int64_t tile = 4096;
  const auto codec = codec_named(name);
  ErrorFeedback errors(codec, kept);
  errors.cover(state.range(0));
  Buffer values = gradients(state.range(0));
  Buffer bytes = Buffer::on_host(DataType::u8, codec->encoded_bytes(state.range(0)));
  const auto length = static_cast<std::size_t>(codec->encoded_bytes(tile));
  for (auto _ : state) {
    for (std::int64_t begin = 0; begin < state.range(0); begin += tile) {
      const std::span code(bytes.view().bytes() + codec->encoded_bytes(begin), length);
      const auto some = values.view().slice(begin, tile).as<float>();
      errors.encode(code, some, {0, 0, begin});
      errors.keep(some, begin);
    }
    errors.commit();
    benchmark::ClobberMemory();
  }
  state.counters["elements"] =
      benchmark::Counter(static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate);
}

void copy(benchmark::State& state) {
  Buffer from = gradients(state.range(0));
  Buffer to = Buffer::on_host(DataType::f32, state.range(0));
  for (auto _ : state) {
    std::memcpy(to.view().data(), from.view().data(), from.size_bytes());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<std::int64_t>(from.size_bytes()));
}

constexpr std::int64_t cached = 64 << 10;
constexpr std::int64_t large = 4 << 20;

BENCHMARK(copy)->Arg(cached)->Arg(large);
#define CODEC(ID, NAME)                                         \
  BENCHMARK_CAPTURE(encode, ID, NAME)->Arg(cached)->Arg(large); \
  BENCHMARK_CAPTURE(decode, ID, NAME)->Arg(cached)->Arg(large); \
  BENCHMARK_CAPTURE(add, ID, NAME)->Arg(cached)->Arg(large)
CODEC(fp16, "fp16");
CODEC(bf16, "bf16");
CODEC(fp8_e4m3, "fp8-e4m3");
CODEC(fp8_e4m3_stochastic, "fp8-e4m3:stochastic");
CODEC(fp8_e5m2, "fp8-e5m2");
CODEC(int8, "int8");
CODEC(int8_stochastic, "int8:stochastic");
CODEC(int4, "int4");
CODEC(int4_stochastic, "int4:stochastic");
CODEC(fp4, "fp4");
CODEC(fp4_stochastic, "fp4:stochastic");
CODEC(top_k, "top-k:0.01");
CODEC(random_k, "random-k:0.01");
BENCHMARK_CAPTURE(feedback, fp16, "fp16", KeptAs::sixteen_bits)->Arg(cached)->Arg(large);
BENCHMARK_CAPTURE(feedback, int8, "int8", KeptAs::sixteen_bits)->Arg(cached)->Arg(large);
BENCHMARK_CAPTURE(feedback, int8_f32, "int8", KeptAs::f32)->Arg(cached)->Arg(large);

}  // namespace
