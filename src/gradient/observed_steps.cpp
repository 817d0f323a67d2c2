#include "gradient/observed_steps.hpp"

#include <algorithm>
#include <limits>

#include "weft/core/error.hpp"

namespace weft::detail {

ObservedSteps::ObservedSteps(const BucketPlan& plan)
    : ready_at_(static_cast<std::size_t>(plan.layout().parameters())),
      ready_sum_(ready_at_.size()),
      shortest_(plan.buckets().size(), std::numeric_limits<double>::max()) {}

void ObservedSteps::begin_step() {
  if (counts()) {
    for (std::size_t i = 0; i < ready_at_.size(); ++i) ready_sum_[i] += ready_at_[i];
  }
  ++steps_;
  step_begin_ = Clock::now();
}

BackwardProfile ObservedSteps::agree(Communicator& comm, const BucketPlan& plan) const {
  Stream stream;
  BackwardProfile agreed{ready_sum_, {}};
  for (double& ready : agreed.ready_seconds) ready /= std::max(1, steps_ - 2);
  comm.all_reduce(View(std::span(agreed.ready_seconds)), ReduceOp::max, stream).wait();
  std::vector<double> shortest = shortest_;
  comm.all_reduce(View(std::span(shortest)), ReduceOp::min, stream).wait();

  constexpr double few_bytes = 64;
  std::vector<LinkModel::Sample> samples{{few_bytes, measure_latency(comm)}};
  for (std::size_t i = 0; i < shortest.size(); ++i) {
    const auto bytes =
        static_cast<double>(plan.buckets()[i].count()) * static_cast<double>(size_of(plan.layout().dtype()));
    if (bytes > few_bytes) samples.push_back({bytes, std::max(shortest[i], 1e-9)});
  }
  if (samples.size() == 1) samples.push_back({2 * few_bytes, samples.front().seconds});
  agreed.link = LinkModel::fit(samples);
  return agreed;
}

double measure_latency(Communicator& comm) {
  constexpr int tries = 5;
  Stream stream;
  float few[16] = {};
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < tries; ++i) {
    const auto begin = ObservedSteps::Clock::now();
    comm.all_reduce(View(std::span(few)), ReduceOp::sum, stream).wait();
    least = std::min(least, std::chrono::duration<double>(ObservedSteps::Clock::now() - begin).count());
  }
  comm.all_reduce(View(std::span(&least, 1)), ReduceOp::max, stream).wait();
  return least;
}

}  // namespace weft::detail
