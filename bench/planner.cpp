// The exposed time of planned buckets beside fixed sizes, by the planner's own model, for the tensors of
// known models.
//
//   bench_planner        no arguments; no ranks: it is arithmetic
//
// Gradients in f32, ready in proportion to backward's work at 100 TFLOP/s; an all_reduce over many ranks
// sends every byte twice at 95 % of the line, and takes 30 us to begin. Exit status 1 when a plan is worse
// than a fixed size.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "models.hpp"
#include "weft/gradient/bucket_planner.hpp"

namespace {

using namespace weft;
using Clock = std::chrono::steady_clock;

constexpr std::array<std::size_t, 4> fixed_mib{1, 5, 25, 100};

double planning_seconds(int parameters) {
  std::vector<ParamSpec> specs;
  std::vector<double> ready;
  for (int i = 0; i < parameters; ++i) {
    specs.push_back({text('p', i), 1000 + i % 7 * 50'000});
    ready.push_back(1e-4 * (parameters - i));
  }
  const ParamLayout layout(DataType::f32, specs);
  std::vector<double> seconds;
  for (int i = 0; i < 21; ++i) {
    const auto begin = Clock::now();
    const BucketPlan plan = plan_buckets(layout, ready, {30e-6, 1e9});
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

}  // namespace

int main() {
  const std::array models{bench::resnet50(128), bench::bert_large(16 * 512), bench::gpt2(16 * 1024),
                          bench::llama_7b(4096)};
  std::vector<double> gains;
  bool never_worse = true;
  std::printf("%-10s %6s %9s | exposed, ms: %8s %8s %8s %8s | %8s %7s | %s\n", "model", "Gbit/s", "backward",
              "1 MiB", "5 MiB", "25 MiB", "100 MiB", "planned", "buckets", "gain over 25 MiB");
  for (const auto& model : models) {
    const ParamLayout layout = model.layout();
    const std::vector<double> ready = model.ready_seconds(100e12);
    for (const double gigabits : {1.0, 10.0, 100.0, 400.0}) {
      const LinkModel link{30e-6, 0.95 * gigabits * 1e9 / 8 / 2};
      const BucketPlan plan = plan_buckets(layout, ready, link);
      const Forecast planned = forecast(plan, ready, link);
      std::printf("%-10s %6.0f %9.2f |              ", model.name.c_str(), gigabits,
                  planned.backward_seconds * 1e3);
      double at_25 = 0;
      for (const std::size_t mib : fixed_mib) {
        const double exposed = forecast(plan_buckets(layout, mib << 20), ready, link).exposed_seconds;
        if (mib == 25) at_25 = exposed;
        never_worse = never_worse && planned.exposed_seconds <= exposed * (1 + 1e-9);
        std::printf("%8.2f ", exposed * 1e3);
      }
      gains.push_back(1 - planned.exposed_seconds / at_25);
      std::printf("| %8.2f %7zu | %5.1f %%\n", planned.exposed_seconds * 1e3, plan.buckets().size(),
                  100 * gains.back());
    }
  }
  std::ranges::sort(gains);
  std::printf("median gain over 25 MiB: %.1f %%; never worse than the best fixed size: %s\n",
              100 * (gains[gains.size() / 2 - 1] + gains[gains.size() / 2]) / 2, never_worse ? "yes" : "NO");
  for (const int parameters : {1000, 100'000})
    std::printf("planning %d parameters: %.3f ms\n", parameters, 1e3 * planning_seconds(parameters));
  return never_worse ? 0 : 1;
}
