// The time of an exchange under each codec: the gradients of ResNet-18, all ready at once, until every rank
// has the means. Codecs take turns, round after round, so that a change of the machine's speed affects all of
// them.
//
//   launchers/cluster.sh up 4 1gbit; launchers/cluster.sh run -np 4 build/release/bin/bench_exchange [ROUNDS]
//   default: 5 rounds, ddp,ddp+bf16,... see `names`

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "models.hpp"
#include "program.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

const std::vector<std::string> names{
    "as they are",           "bf16", "fp16", "int8", "powersgd:2", "powersgd:2:alternating", "powersgd:4",
    "powersgd:4:alternating"};
constexpr int warm_up_steps = 12;  // in which buckets are planned

class Contestant {
 public:
  Contestant(std::string name, Communicator comm, const ParamLayout& layout)
      : name_(std::move(name)), comm_(comm), reducer_(comm, layout, {.hook = hook()}) {
    fresh_.resize(static_cast<std::size_t>(layout.size()));
    std::mt19937 random(static_cast<unsigned>(comm.rank()));
    std::normal_distribution<float> normal;
    for (float& value : fresh_) value = normal(random);
  }

  void step() {
    std::ranges::copy(fresh_, reducer_.gradients().as<float>().begin());
    Stream compute;
    comm_.barrier(compute).wait();
    const std::uint64_t sent = comm_.wire_bytes();
    const auto begin = Clock::now();
    reducer_.begin_step();
    for (int i = reducer_.layout().parameters() - 1; i >= 0; --i) reducer_.mark_ready(ParamId{i}, compute);
    reducer_.finish_step(compute);
    compute.synchronize();
    seconds_.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    sent_ = comm_.wire_bytes() - sent;
  }
  /// Seconds until the last rank has its means, for each step.
  std::vector<double> slowest() {
    Stream stream;
    comm_.all_reduce(View(std::span(seconds_)), ReduceOp::max, stream).wait();
    std::vector<double> sorted = std::move(seconds_);
    std::ranges::sort(sorted);
    return sorted;
  }
  void forget() { seconds_.clear(); }
  const std::string& name() const { return name_; }
  double megabytes() const { return static_cast<double>(sent_) * 1e-6; }
  std::size_t buckets() const { return reducer_.plan().buckets().size(); }

 private:
  std::shared_ptr<CommHook> hook() const { return name_ == names.front() ? nullptr : hook_named(name_, 0); }

  std::string name_;
  Communicator comm_;
  GradientReducer reducer_;
  std::vector<float> fresh_;
  std::vector<double> seconds_;
  std::uint64_t sent_ = 0;
};

int run(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: bench_exchange [ROUNDS], 1 or more\n");
    return 42;
  }
  Communicator comm = connect(World::from_environment());
  comm.slow_after(std::chrono::minutes(1));
  const ParamLayout layout = bench::resnet18(1).layout();
  std::vector<Contestant> contestants;
  for (const std::string& name : names) contestants.emplace_back(name, comm, layout);
  for (Contestant& one : contestants) {
    for (int i = 0; i < warm_up_steps; ++i) one.step();
    one.forget();
  }
  for (int round = 0; round < rounds; ++round) {
    for (Contestant& one : contestants) {
      for (int i = 0; i < 3; ++i) one.step();
    }
  }
  double reference = 0;
  for (Contestant& one : contestants) {
    const std::vector<double> seconds = one.slowest();
    const double median = seconds[seconds.size() / 2];
    if (reference == 0) reference = median;
    if (comm.rank() != 0) continue;
    std::printf("%-24s %8.1f ms (%.1f to %.1f), %6.2f times as fast, %7.3f MB a rank, %zu buckets\n",
                one.name().c_str(), median * 1e3, seconds.front() * 1e3, seconds.back() * 1e3,
                reference / median, one.megabytes(), one.buckets());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
