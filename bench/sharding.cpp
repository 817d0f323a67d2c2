// The time of a step's communication under each stage of ZeRO: ResNet-18's gradients, all ready at once,
// until every rank has its new parameters (in stage 3: until it has used all twice). Beside them the method
// of peers in stages 1 and 2: gradients reduced to all ranks, parameters gathered, with the same buckets,
// each as soon as it can be. Contestants take turns, round after round, so that a change of the machine's
// speed affects all of them.
//
//   launchers/cluster.sh up 4 1gbit; launchers/cluster.sh run -np 4 build/release/bin/bench_sharding [ROUNDS]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "models.hpp"
#include "program.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

constexpr std::size_t bucket_bytes = std::size_t{4} << 20;
constexpr float rate = 1e-3F;

class Contestant {
 public:
  Contestant(std::string name, Communicator comm) : name_(std::move(name)), comm_(std::move(comm)) {}
  virtual ~Contestant() = default;
  virtual void exchange(const Stream& compute) = 0;
  virtual std::uint64_t sent() const { return comm_.wire_bytes(); }

  void step() {
    Stream compute;
    comm_.barrier(compute).wait();
    const std::uint64_t before = sent();
    const auto begin = Clock::now();
    exchange(compute);
    seconds_.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    sent_ = sent() - before;
  }
  /// Seconds until the last rank is done, for each step.
  std::vector<double> slowest() {
    Stream stream;
    comm_.all_reduce(View(std::span(seconds_)), ReduceOp::max, stream).wait();
    std::ranges::sort(seconds_);
    return seconds_;
  }
  void forget() { seconds_.clear(); }
  const std::string& name() const { return name_; }
  double megabytes() const { return static_cast<double>(sent_) * 1e-6; }

 protected:
  std::string name_;
  Communicator comm_;

 private:
  std::vector<double> seconds_;
  std::uint64_t sent_ = 0;
};

/// Every rank gets all means, updates its part, and then gathers the parts of the others.
class Peers final : public Contestant {
 public:
  Peers(const Communicator& comm, const ParamLayout& layout)
      : Contestant("all_reduce + all_gather", comm),
        plan_(plan_whole_buckets(layout, bucket_bytes, 32 * comm.size())),
        reducer_(comm, layout, {.buckets = plan_}),
        parameters_(comm_.allocate(DataType::f32, plan_.end())),
        gathers_(comm_.progress_stream()) {}

  void exchange(const Stream& compute) override {
    reducer_.begin_step();
    for (int i = plan_.layout().parameters() - 1; i >= 0; --i) reducer_.mark_ready(ParamId{i}, compute);
    reducer_.finish_step(compute, [&](const Bucket& bucket) {
      const std::int64_t count = bucket.count() / comm_.size();
      const View whole = parameters_.view().slice(bucket.begin, bucket.count());
      const View mine = whole.slice(count * comm_.rank(), count);
      const ConstView gradient = reducer_.means(bucket).slice(count * comm_.rank(), count);
      Stream(compute).run([mine, gradient] {
        for (std::int64_t i = 0; i < mine.count(); ++i)
          mine.as<float>()[static_cast<std::size_t>(i)] -=
              rate * gradient.as<const float>()[static_cast<std::size_t>(i)];
      });
      gathers_.wait(compute.record());
      comm_.all_gather(mine, whole, gathers_);
    });
    Stream(compute).synchronize();
    gathers_.synchronize();
  }

 private:
  BucketPlan plan_;
  GradientReducer reducer_;
  Buffer parameters_;
  Stream gathers_;
};

class Sharded final : public Contestant {
 public:
  Sharded(int stage, const Communicator& comm, const ParamLayout& layout)
      : Contestant(text("zero", stage), comm),
        params_(comm, layout, options(stage, layout)),
        optimizer_(params_, zero::Sgd{.learning_rate = rate}) {}

  std::uint64_t sent() const override { return params_.wire_bytes(); }
  void exchange(const Stream& compute) override {
    const bool gathers = params_.stage().parameters == zero::Placement::sharded;
    params_.begin_step();
    for (int unit = 0; gathers && unit < params_.units(); ++unit) (void)params_.gather(unit, compute);
    int id = params_.layout().parameters() - 1;
    for (int unit = params_.units() - 1; unit >= 0; --unit) {
      std::optional<zero::Gathered> full;
      if (gathers) full.emplace(params_.gather(unit, compute));
      for (; id >= 0 && params_.unit_of(ParamId{id}) == unit; --id) {
        (void)params_.gradient(ParamId{id}, compute);
        params_.mark_ready(ParamId{id}, compute);
      }
    }
    optimizer_.step(compute);
    if (!gathers) params_.gather_all(compute);
    Stream(compute).synchronize();
  }

 private:
  static zero::ShardedOptions options(int stage, const ParamLayout& layout) {
    zero::ShardedOptions options{.stage = stage, .bucket_bytes = bucket_bytes};
    constexpr int together = 10;
    for (int i = 0; i < layout.parameters(); i += together) options.units.push_back(ParamId{i});
    if (stage < 3) options.units.clear();
    return options;
  }

  zero::ShardedParams params_;
  zero::ShardedOptimizer optimizer_;
};

int run(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: bench_sharding [ROUNDS], 1 or more\n");
    return 42;
  }
  Communicator comm = connect(World::from_environment());
  comm.slow_after(std::chrono::minutes(1));
  const ParamLayout layout = bench::resnet18(1).layout();
  std::vector<std::unique_ptr<Contestant>> contestants;
  contestants.push_back(std::make_unique<Peers>(comm, layout));
  for (const int stage : {1, 2, 3}) contestants.push_back(std::make_unique<Sharded>(stage, comm, layout));
  for (const auto& one : contestants) {
    for (int i = 0; i < 3; ++i) one->step();
    one->forget();
  }
  for (int round = 0; round < rounds; ++round) {
    for (const auto& one : contestants) {
      for (int i = 0; i < 3; ++i) one->step();
    }
  }
  const double parameters = static_cast<double>(layout.size_bytes()) * 1e-6 * (comm.size() - 1) / comm.size();
  double reference = 0;
  for (const auto& one : contestants) {
    const std::vector<double> seconds = one->slowest();
    const double median = seconds[seconds.size() / 2];
    if (reference == 0) reference = median;
    if (comm.rank() != 0) continue;
    std::printf(
        "%-24s %8.1f ms (%.1f to %.1f), %5.2f times as fast, %7.3f MB a rank: %.3f (N-1)/N of the "
        "parameters\n",
        one->name().c_str(), median * 1e3, seconds.front() * 1e3, seconds.back() * 1e3, reference / median,
        one->megabytes(), one->megabytes() / parameters);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
