// The cost of a step of AdamW on one core: bf16 gradients to bf16 parameters, in one pass, beside the same
// memory read and written without arithmetic, and beside DeepSpeed's four passes, in turn.
//
//   bench_optimizer [--peer LIBRARY] [--millions N] [--rounds K]      default: 64 Mi parameters, 15 rounds
//
// LIBRARY is what bench/peers/deepspeed_adam.sh makes. OMP_NUM_THREADS is set to 1: both sides use one core.

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"
#include "zero/update/fused_step.hpp"

namespace {

using namespace weft;
using Peer = void (*)(std::uint64_t step, float rate, float inverse_scale, std::int64_t count,
                      const std::uint16_t* gradient, float* wide, float* master, float* first, float* second,
                      std::uint16_t* parameters);

struct Arguments {
  std::string peer;
  std::int64_t count = 64 << 20;
  int rounds = 15;
};

/// The arrays of one optimizer; every page is touched before the timing.
struct Arrays {
  explicit Arrays(std::int64_t count) {
    for (Buffer* halves : {&gradient, &parameters, &low}) *halves = Buffer::on_host(DataType::bf16, count);
    for (Buffer* floats : {&master, &first, &second}) *floats = Buffer::on_host(DataType::f32, count);
    std::mt19937 random(1);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto drawn = static_cast<float>(static_cast<std::int32_t>(random()));
      gradient.as<BFloat16>()[i] = BFloat16(drawn * 0x1p-36F);
      master.as<float>()[i] = drawn * 0x1p-33F;
      parameters.as<BFloat16>()[i] = BFloat16(drawn * 0x1p-33F);
    }
  }
  View kept_by(detail::Master kept) { return kept == detail::Master::split ? low.view() : master.view(); }

  Buffer gradient, parameters, low, master, first, second;
};

detail::StepSlice slice_of(Arrays& arrays, detail::Master kept) {
  return {.gradient = arrays.gradient.view(),
          .parameters = arrays.parameters.view(),
          .master = arrays.kept_by(kept),
          .first = arrays.first.view(),
          .second = arrays.second.view(),
          .kept = kept};
}

// 64 bytes: memory is read by cache lines, whatever the width of the vectors.
typedef std::uint32_t Line __attribute__((vector_size(64), may_alias));

/// Reads and writes what a step does, in its order, and changes nothing. @param zero not known to the
/// compiler
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void move(const detail::StepSlice& slice, std::uint32_t zero) {
  const auto* g = static_cast<const Line*>(slice.gradient.data());
  auto* p = static_cast<Line*>(slice.parameters.data());
  auto* w = static_cast<Line*>(slice.master.data());
  auto* m = static_cast<Line*>(slice.first.data());
  auto* v = static_cast<Line*>(slice.second.data());
  const bool split = slice.kept == detail::Master::split;
  for (std::int64_t i = 0; i < slice.gradient.count() / 32; ++i) {
    const Line nothing = g[i] & zero;
    m[2 * i] |= nothing;
    v[2 * i] |= nothing;
    m[2 * i + 1] |= nothing;
    v[2 * i + 1] |= nothing;
    if (split) {
      p[i] |= nothing;
      w[i] |= nothing;
    } else {
      w[2 * i] |= nothing;
      w[2 * i + 1] |= nothing;
      p[i] = g[i];
    }
  }
}

Peer peer_of(const std::string& library) {
  setenv("OMP_NUM_THREADS", "1", 1);
  void* handle = dlopen(library.c_str(), RTLD_NOW);
  void* symbol = handle == nullptr ? nullptr : dlsym(handle, "weft_peer_adamw");
  if (symbol == nullptr)
    throw Error(ErrorKind::usage, text("--peer ", library, ": ", dlerror()),
                "bench/peers/deepspeed_adam.sh makes one");
  return reinterpret_cast<Peer>(symbol);
}

Arguments parse(int argc, char** argv) {
  Arguments result;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc || (option != "--peer" && option != "--millions" && option != "--rounds"))
      throw Error(ErrorKind::usage, text("argument ", option),
                  "bench_optimizer [--peer LIBRARY] [--millions N] [--rounds K]");
    if (option == "--peer") result.peer = argv[i + 1];
    if (option == "--millions") result.count = std::int64_t{std::atoi(argv[i + 1])} << 20;
    if (option == "--rounds") result.rounds = std::atoi(argv[i + 1]);
  }
  if (result.count < 1 || result.rounds < 1)
    throw Error(ErrorKind::usage, "--millions or --rounds below 1", "give 1 or more");
  return result;
}

int run(const Arguments& arguments) {
  bench::stay_on_one_core();
  const zero::AdamW rule;
  constexpr double scale = 1.0 / 1024;
  Arrays arrays(arguments.count);
  Buffer wide;
  std::vector<bench::Case> cases;
  const auto moved = [&](detail::Master kept) {
    return [&arrays, kept](int) {
      volatile std::uint32_t zero = 0;
      move(slice_of(arrays, kept), zero);
    };
  };
  const auto stepped = [&](detail::Master kept) {
    return [&arrays, &rule, kept](int round) {
      detail::on_host::fused_step(slice_of(arrays, kept),
                                  detail::factors(rule, round + 1, rule.learning_rate, scale));
    };
  };
  cases.push_back({"moved alone, split master, 26 bytes", moved(detail::Master::split)});
  cases.push_back({"fused step, split master", stepped(detail::Master::split)});
  cases.push_back({"moved alone, f32 master, 28 bytes", moved(detail::Master::f32)});
  cases.push_back({"fused step, f32 master", stepped(detail::Master::f32)});
  if (!arguments.peer.empty()) {
    wide = Buffer::on_host(DataType::f32, arguments.count);
    cases.push_back({"four passes of the peer", [&, peer = peer_of(arguments.peer)](int round) {
                       const auto floats = [](Buffer& buffer) { return buffer.as<float>().data(); };
                       peer(static_cast<std::uint64_t>(round) + 1, static_cast<float>(rule.learning_rate),
                            static_cast<float>(scale), arguments.count,
                            &arrays.gradient.as<BFloat16>()[0].bits, floats(wide), floats(arrays.master),
                            floats(arrays.first), floats(arrays.second),
                            &arrays.parameters.as<BFloat16>()[0].bits);
                     }});
  }
  bench::in_turn(cases, arguments.rounds);
  bench::print_rates(cases, static_cast<double>(arguments.count) * 1e-6, "M parameters/s");
  for (const std::size_t i : {std::size_t{1}, std::size_t{3}}) {
    std::printf("%s: %.3f of the memory's bound", cases[i].name.c_str(),
                bench::median(cases[i - 1].seconds) / bench::median(cases[i].seconds));
    if (cases.size() > 4)
      std::printf(", %.2f times the peer", bench::median(cases[4].seconds) / bench::median(cases[i].seconds));
    std::printf("\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, [](int count, char** given) { return run(parse(count, given)); });
}
