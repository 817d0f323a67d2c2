// The cost of a step of AdamW on one core: bf16 gradients to bf16 parameters, in one pass, beside the same
// memory read and written without arithmetic, and beside DeepSpeed's four passes, in turn. Also in two groups,
// those of matrices and of vectors, where a GPT's blocks of two widths have a range for each tensor or two.
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
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"
#include "zero/update/grouped_step.hpp"

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

/// A GPT's blocks, until `count` elements are full. Vectors of a norm lie between the matrices.
ParamLayout blocks(std::int64_t width, std::int64_t count) {
  std::vector<ParamSpec> specs;
  const auto add = [&](std::vector<std::int64_t> shape) {
    std::int64_t elements = shape[0];
    if (shape.size() > 1) elements *= shape[1];
    if (count < elements) return false;
    count -= elements;
    specs.push_back({.name = std::to_string(specs.size()), .count = elements, .shape = std::move(shape)});
    return true;
  };
  while (add({width}) && add({width}) && add({width, 3 * width}) && add({3 * width}) && add({width, width}) &&
         add({width}) && add({width}) && add({width}) && add({width, 4 * width}) && add({4 * width}) &&
         add({4 * width, width}) && add({width})) {
  }
  return ParamLayout(DataType::bf16, specs);
}

/// Two groups over the arrays.
struct Groups {
  Groups(std::int64_t width, std::int64_t count) {
    const ParamLayout layout = blocks(width, count);
    const zero::ParamGroups groups = zero::decay_matrices(layout);
    std::vector<int> group_numbers;
    for (int i = 0; i < layout.parameters(); ++i) group_numbers.push_back(groups.group_number(ParamId{i}));
    runs = detail::GroupRuns(layout, group_numbers);
    for (const zero::ParamGroup& group : groups.groups())
      rules.push_back(detail::rule_of(zero::AdamW{}, group));
    runs.visit(0, count, [this](auto, auto, auto) { ++ranges; });
  }
  detail::GroupedFactors factors(int step, double scale) const {
    detail::GroupedFactors result{.runs = &runs};
    for (const zero::Optimizer& rule : rules)
      result.by_group.push_back(detail::factors(rule, step, zero::AdamW{}.learning_rate, scale));
    return result;
  }
  detail::GroupRuns runs;
  std::vector<zero::Optimizer> rules;
  std::int64_t ranges = 0;
};

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
  const std::size_t first_grouped = cases.size();
  std::vector<std::unique_ptr<Groups>> groups;
  for (const std::int64_t width : {384, 32}) {
    groups.push_back(std::make_unique<Groups>(width, arguments.count));
    cases.push_back({text("two groups in ", groups.back()->ranges, " ranges, width ", width),
                     [&arrays, &groups = *groups.back()](int round) {
                       detail::grouped_step(slice_of(arrays, detail::Master::f32), 0,
                                            groups.factors(round + 1, scale), Stream());
                     }});
  }
  const std::size_t peer = cases.size();
  if (!arguments.peer.empty()) {
    wide = Buffer::on_host(DataType::f32, arguments.count);
    cases.push_back({"four passes of the peer", [&, step = peer_of(arguments.peer)](int round) {
                       const auto floats = [](Buffer& buffer) { return buffer.as<float>().data(); };
                       step(static_cast<std::uint64_t>(round) + 1, static_cast<float>(rule.learning_rate),
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
    if (cases.size() > peer)
      std::printf(", %.2f times the peer",
                  bench::median(cases[peer].seconds) / bench::median(cases[i].seconds));
    std::printf("\n");
  }
  for (std::size_t i = first_grouped; i < peer; ++i)
    std::printf("%s: %.3f times the step of one group\n", cases[i].name.c_str(),
                bench::median(cases[i].seconds) / bench::median(cases[3].seconds));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, [](int count, char** given) { return run(parse(count, given)); });
}
