#include "gradient/reducer/observed_steps.hpp"

#include <algorithm>
#include <array>

#include "weft/core/buffer.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

ObservedSteps::ObservedSteps(const BucketPlan& plan)
    : ready_sum_(static_cast<std::size_t>(plan.layout().parameters())) {
  times_->ready.resize(ready_sum_.size());
}

void ObservedSteps::begin_step(cuda::DeviceClock* device, const std::optional<Stream>& compute) {
  if (counts()) {
    for (std::size_t i = 0; i < ready_sum_.size(); ++i) ready_sum_[i] += ready_seconds(i);
  }
  ++steps_;
  times_->begin = Clock::now();
  if (device != nullptr && compute) device->note(*compute, {times_, &times_->begin});
}

BackwardProfile ObservedSteps::agree(Communicator& comm, const BucketPlan& plan, const StepClock& clock,
                                     const Stream& wire) const {
  Stream stream;
  BackwardProfile agreed{ready_sum_, {}};
  for (std::size_t i = 0; i < ready_sum_.size(); ++i)
    agreed.ready_seconds[i] = (ready_sum_[i] + ready_seconds(i)) / counted;
  comm.all_reduce(View(std::span(agreed.ready_seconds)), ReduceOp::max, stream).wait();
  std::vector<double> took(plan.buckets().size());
  for (std::size_t back = 0; back < counted; ++back) {
    const StepClock::Step& step = clock.before(back);
    Clock::time_point before_ended{};
    for (std::size_t bucket = 0; bucket < took.size(); ++bucket) {
      const StepClock::Bucket& seen = step.buckets[bucket];
      took[bucket] +=
          std::chrono::duration<double>(seen.ended - std::max(seen.ready, before_ended)).count() / counted;
      before_ended = seen.ended;
    }
  }
  comm.all_reduce(View(std::span(took)), ReduceOp::avg, stream).wait();

  std::vector<LinkModel::Sample> samples;
  for (std::size_t bucket = 0; bucket < took.size(); ++bucket) {
    const auto bytes = static_cast<double>(plan.buckets()[bucket].count()) *
                       static_cast<double>(size_of(plan.layout().dtype()));
    samples.push_back({bytes, std::max(took[bucket], 1e-9)});
  }
  const auto differs = [&](const LinkModel::Sample& one) { return one.bytes != samples.front().bytes; };
  if (std::ranges::none_of(samples, differs)) samples.push_back({0, measure_latency(comm, wire)});
  agreed.link = LinkModel::fit(samples);
  return agreed;
}

BucketPlan probing_plan(const ParamLayout& layout) {
  constexpr std::size_t large = std::size_t{1} << 20;
  std::vector<Bucket> buckets;
  Bucket bucket{layout.size(), layout.size(), {}};
  for (int i = layout.parameters() - 1; i >= 0; --i) {
    bucket.begin = layout.offset(ParamId{i});
    bucket.params.push_back(ParamId{i});
    const bool is_full = static_cast<std::size_t>(bucket.count()) * size_of(layout.dtype()) >= large;
    const bool is_small_ones_turn = buckets.size() % 2 == 0;
    if (i > 0 && !is_full && !is_small_ones_turn) continue;
    const std::int64_t begin = bucket.begin;
    buckets.push_back(std::move(bucket));
    bucket = {begin, begin, {}};
  }
  return {layout, std::move(buckets)};
}

double measure_latency(Communicator& comm, const Stream& wire) {
  constexpr std::size_t tries = 9;
  Buffer few = Buffer::on(comm.device(), DataType::f32, 16);
  std::array<double, tries> seconds{};
  for (double& one : seconds) {
    const auto begin = ObservedSteps::Clock::now();
    comm.all_reduce(few.view(), ReduceOp::sum, wire).wait();
    one = std::chrono::duration<double>(ObservedSteps::Clock::now() - begin).count();
  }
  std::ranges::sort(seconds);
  double median = seconds[tries / 2];
  Stream stream;
  comm.all_reduce(View(std::span(&median, 1)), ReduceOp::max, stream).wait();
  return median;
}

}  // namespace weft::detail
