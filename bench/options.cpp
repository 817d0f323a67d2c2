// The cost of the reducer's options: the gradients of mlp-8x1024 written and averaged, under each option in
// turn.
//
//   mpirun -n 2 bench_options [ROUNDS]        default: 40 rounds of 5 steps each
//
// A step writes every gradient (as cheaply as memory allows, so the shares are upper bounds),
// marks it, and waits for the means. "recorded" is the time of one entry of the flight record, and its
// share of a step.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "collectives/diagnosis/operation_log.hpp"
#include "program.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

ParamLayout mlp() {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 8; ++i) {
    specs.push_back({text("linear", i, ".weight"), 1024 * 1024});
    specs.push_back({text("linear", i, ".bias"), 1024});
  }
  return ParamLayout(DataType::f32, specs);
}

struct Contestant {
  std::string name;
  Communicator comm;
  GradientReducer reducer;
  std::vector<double> seconds{};

  void step() {
    Stream compute;
    const auto begin = Clock::now();
    reducer.begin_step();
    for (int i = reducer.layout().parameters() - 1; i >= 0; --i) {
      std::ranges::fill(reducer.gradient(ParamId{i}).as<float>(), static_cast<float>(comm.rank() + i));
      reducer.mark_ready(ParamId{i}, compute);
    }
    reducer.finish_step(compute);
    compute.synchronize();
    seconds.push_back(seconds_since(begin));
  }
  double median() {
    std::ranges::sort(seconds);
    double middle = seconds[seconds.size() / 2];
    Stream stream;
    comm.all_reduce(View(std::span(&middle, 1)), ReduceOp::max, stream).wait();
    return middle;
  }
};

/// The record of one operation that does not end within its call: an entry and three marks.
double seconds_of_a_record() {
  detail::OperationLog log("bench", {0}, 0);
  constexpr int times = 1'000'000;
  const auto begin = Clock::now();
  for (int i = 1; i <= times; ++i) {
    const auto place = log.issued(detail::OperationLog::Sequence::host,
                                  {.kind = Collective::all_reduce, .number = static_cast<std::uint64_t>(i)});
    log.waits(place);
    log.begun(place);
    log.ended(place, detail::OperationLog::State::done);
  }
  return seconds_since(begin) / times;
}

int run(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  const World world = World::from_environment();
  const Communicator comm = connect(world);
  const Communicator traced = connect(world, {.trace = std::make_shared<Trace>(world.rank())});
  const ParamLayout layout = mlp();
  std::vector<Contestant> all;
  const auto add = [&](const char* name, const Communicator& on, ReducerOptions options) {
    options.buckets = BucketBytes{std::size_t{1} << 20};
    all.push_back({name, on, GradientReducer(on, layout, std::move(options))});
  };
  add("plain", comm, {});
  add("plain again", comm, {});
  add("fixed tree", comm, {.hook = tree_hook()});
  add("reduce in bf16", comm, {.hook = cast_hook(DataType::bf16)});
  add("count bad values", comm, {.count_bad_values = true});
  add("squares by block", comm, {.norm_block = 64 << 10});
  add("unused: find", comm, {.unused = Unused::find});
  add("uneven", comm, {.uneven = Uneven::mean_of_all});
  add("traced", traced, {});
  for (int round = 0; round < rounds; ++round) {
    for (Contestant& one : all) {
      for (int step = 0; step < 5; ++step) one.step();
    }
  }
  const double plain = all.front().median();
  for (Contestant& one : all) {
    const double median = one.median();
    if (comm.rank() == 0)
      std::printf("%-18s %8.3f ms   %.3f of plain\n", one.name.c_str(), median * 1e3, median / plain);
  }
  const double record = seconds_of_a_record();
  const auto operations = static_cast<double>(all.front().reducer.plan().buckets().size());
  if (comm.rank() == 0)
    std::printf("%-18s %8.3f us an operation, %.5f of a plain step\n", "recorded", record * 1e6,
                record * operations / plain);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
