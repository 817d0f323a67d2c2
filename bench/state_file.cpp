// The cost of a step of AdamW with masters and moments in a file: bf16 gradients to bf16 parameters, on
// one thread, beside the same file read and written through the same ring without an update, and beside the
// step with state in memory, in turn.
//
//   bench_state_file --directory DIR [--millions N] [--tile-mib M] [--rounds K]
//   default: 64 Mi parameters in tiles of 4 MiB of gradients, 7 rounds

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"
#include "zero/offload/offloaded_state.hpp"

namespace {

using namespace weft;

struct Arguments {
  zero::Offload offload{.share = 1};
  std::int64_t count = 64 << 20;
  int rounds = 7;
};

Arguments parse(int argc, char** argv) {
  const char* usage = "bench_state_file --directory DIR [--millions N] [--tile-mib M] [--rounds K]";
  Arguments result;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc) throw Error(ErrorKind::usage, text("argument ", option), usage);
    if (option == "--directory") {
      result.offload.directory = argv[i + 1];
    } else if (option == "--millions") {
      result.count = std::int64_t{std::atoi(argv[i + 1])} << 20;
    } else if (option == "--tile-mib") {
      result.offload.tile_bytes = static_cast<std::size_t>(std::atoi(argv[i + 1])) << 20;
    } else if (option == "--rounds") {
      result.rounds = std::atoi(argv[i + 1]);
    } else {
      throw Error(ErrorKind::usage, text("argument ", option), usage);
    }
  }
  if (result.offload.directory.empty() || result.count < 1 || result.rounds < 1 ||
      result.offload.tile_bytes == 0)
    throw Error(ErrorKind::usage, "no --directory, or a number below 1", usage);
  return result;
}

/// Updates all elements; there is nothing else to wait for.
struct Stepped {
  Stepped(const detail::StateKind& kind, const Arguments& arguments, double file_share)
      : parameters(Buffer::on_host(kind.dtype, arguments.count)),
        state(Device::host(), kind, {{0, arguments.count}, 1, file_share, 64}, arguments.offload, 0) {
    state.load(0, parameters.view());
    state.synchronize();
  }
  void step(const Buffer& gradient, const zero::AdamW& rule, int number) {
    auto factors = std::make_shared<detail::GroupedFactors>();
    factors->runs = &all;
    factors->by_group.push_back(detail::factors(rule, number, rule.learning_rate, 1));
    state.update(0, gradient.view(), {0, factors}, {}, true, static_cast<std::uint64_t>(number));
    state.upload(0, parameters.view(), {});
    state.end_step();
    state.synchronize();
  }

  detail::GroupRuns all;  // one group
  Buffer parameters;
  detail::OffloadedState state;
};

int run(const Arguments& arguments) {
  const zero::AdamW rule;
  const auto kind = detail::StateKind::of(DataType::bf16, rule, zero::Master::f32);
  Buffer gradient = Buffer::on_host(kind.dtype, arguments.count);
  std::mt19937 random(1);
  for (BFloat16& one : gradient.as<BFloat16>())
    one = BFloat16(static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-36F);
  Stepped in_file(kind, arguments, 1);
  Stepped in_memory(kind, arguments, 0);
  std::vector<bench::Case> cases;
  cases.push_back({"file read and written alone", [&](int) {
                     in_file.state.visit(0, arguments.count, true, [](auto...) {});
                     in_file.state.synchronize();
                   }});
  cases.push_back({"step of state in the file", [&](int round) { in_file.step(gradient, rule, round + 1); }});
  cases.push_back({"step of state in memory", [&](int round) { in_memory.step(gradient, rule, round + 1); }});
  bench::in_turn(cases, arguments.rounds);
  bench::print_rates(cases, static_cast<double>(arguments.count) * 1e-6, "M parameters/s");
  const double disk = bench::median(cases[0].seconds);
  std::printf("the file: %.2f GB/s read and as many written; the step is %.3f of its bound\n",
              static_cast<double>(in_file.state.file_bytes()) * 1e-9 / disk,
              disk / bench::median(cases[1].seconds));
  std::printf("host memory: %.1f MB, of it %.1f MB would be there in any case\n",
              static_cast<double>(in_file.state.host_bytes()) * 1e-6,
              static_cast<double>(in_file.parameters.size_bytes()) * 1e-6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, [](int count, char** given) { return run(parse(count, given)); });
}
