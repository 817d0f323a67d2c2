// The cost of compression on one core: the gradients of ResNet-18 through PowerSGD beside a copy of the same
// memory, in turn.
//
//   bench_compression [ROUNDS]                default: 40
//
// One rank, so that nothing is sent: the time is that of the arithmetic and its passes over memory. A pass
// reads or writes the gradients once; a copy is two. Counted, the two-sided form reads gradient and residual
// three times, and writes both once: 3 x 6 + 6 bytes an element, six passes of four; the alternating form,
// four and a half.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "models.hpp"
#include "program.hpp"
#include "rounds.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

/// A reducer of one rank, whose gradients are new before every step.
class Compressed {
 public:
  Compressed(std::string name, const ParamLayout& layout, PowerSgdOptions options)
      : name_(std::move(name)),
        reducer_(self(), layout, {.buckets = BucketBytes{1 << 20}, .hook = power_sgd(options)}) {
    fresh_.resize(static_cast<std::size_t>(layout.size()));
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : fresh_) value = normal(random);
  }

  void step() {
    std::ranges::copy(fresh_, reducer_.gradients().as<float>().begin());
    Stream compute;
    seconds_.push_back(bench::seconds_of([&] {
      reducer_.begin_step();
      for (int i = reducer_.layout().parameters() - 1; i >= 0; --i) reducer_.mark_ready(ParamId{i}, compute);
      reducer_.finish_step(compute);
      compute.synchronize();
    }));
  }
  const std::string& name() const { return name_; }
  std::vector<double>& seconds() { return seconds_; }

 private:
  std::string name_;
  GradientReducer reducer_;
  std::vector<float> fresh_;
  std::vector<double> seconds_;
};

int run(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: bench_compression [ROUNDS], 1 or more\n");
    return 42;
  }
  bench::stay_on_one_core();
  const ParamLayout layout = bench::resnet18(1).layout();
  std::vector<Compressed> forms;
  for (const int rank : {2, 4}) {
    const PowerSgdOptions options{.rank = rank, .start_step = 0};
    PowerSgdOptions alternating = options;
    alternating.form = LowRankForm::alternating;
    forms.emplace_back(text("two-sided, rank ", rank), layout, options);
    forms.emplace_back(text("alternating, rank ", rank), layout, alternating);
  }
  Buffer from = Buffer::on_host(layout.dtype(), layout.size());
  Buffer to = Buffer::on_host(layout.dtype(), layout.size());
  std::memset(from.view().data(), 1, from.size_bytes());
  std::vector<double> copies;
  for (int round = 0; round < rounds + 2; ++round) {
    const double copied =
        bench::seconds_of([&] { std::memcpy(to.view().data(), from.view().data(), from.size_bytes()); });
    copies.push_back(copied);
    for (Compressed& form : forms) form.step();
    if (round > 1) continue;  // memory is touched for the first time, and bases are drawn
    copies.clear();
    for (Compressed& form : forms) form.seconds().clear();
  }
  const double copy = bench::median(copies);
  std::printf("%.1f MB of gradients; a copy takes %.2f ms (%.2f to %.2f), a pass half of it\n",
              static_cast<double>(layout.size_bytes()) * 1e-6, copy * 1e3, copies.front() * 1e3,
              copies.back() * 1e3);
  for (Compressed& form : forms) {
    const double middle = bench::median(form.seconds());
    std::printf("%-22s %7.2f ms (%.2f to %.2f): %.2f passes, %.2f copies\n", form.name().c_str(),
                middle * 1e3, form.seconds().front() * 1e3, form.seconds().back() * 1e3, middle / copy * 2,
                middle / copy);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
