#include "compression/auto/step_forecast.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace weft::detail {

StepForecast::StepForecast(const BucketPlan& plan, const StepProfile& profile, int rank)
    : plan_(plan), profile_(profile), rank_(rank) {
  std::set<ParamId> handled;
  for (const Bucket& bucket : plan.buckets()) {
    BucketWork work;
    work.elements = static_cast<double>(bucket.count());
    work.bytes = work.elements * static_cast<double>(size_of(plan.layout().dtype()));
    for (const ParamId id : bucket.params) {
      if (handled.insert(id).second) work.params.push_back(id);
    }
    buckets_.push_back(std::move(work));
  }
}

std::vector<double> StepForecast::uncompressed() const {
  std::vector<double> all;
  for (const BucketWork& work : buckets_)
    all.push_back(profile_.link.seconds(profile_.sharded ? work.bytes / 2 : work.bytes));
  return all;
}

double StepForecast::wire_seconds() const {
  const std::vector<double> all = uncompressed();
  return std::accumulate(all.begin(), all.end(), 0.0);
}

// An all_to_all, and unless means are sharded an all_gather: each moves half the bytes of an all_reduce.
double StepForecast::exposed_in_bf16() const {
  std::vector<double> all;
  for (const BucketWork& work : buckets_) {
    const double half = profile_.link.seconds(work.bytes / 4);
    all.push_back((profile_.sharded ? half : 2 * half) + work.elements * profile_.coding.bf16);
  }
  return exposed(all, 1);
}

double StepForecast::duration(const BucketWork& work, const std::set<ParamId>& tensors) const {
  double whole = 0, matrices = 0, factors = 0;
  for (const ParamId id : work.params) {
    if (tensors.contains(id)) {
      matrices += static_cast<double>(shape(id).elements());
      factors += static_cast<double>(shape(id).factor_elements(rank_));
    } else {
      whole += static_cast<double>(plan_.layout().count(id));
    }
  }
  const double collectives = factors > 0 ? 2 : whole > 0 ? 1 : 0;
  const double bytes = (whole + factors) * static_cast<double>(size_of(plan_.layout().dtype()));
  return collectives * profile_.link.latency_seconds + bytes / profile_.link.bytes_per_second +
         whole * profile_.coding.copying + matrices * profile_.coding.matrix +
         factors * profile_.coding.factor;
}

std::vector<double> StepForecast::durations(const std::set<ParamId>& tensors) const {
  std::vector<double> all;
  for (const BucketWork& work : buckets_) all.push_back(duration(work, tensors));
  return all;
}

double StepForecast::exposed(const std::vector<double>& durations, double slower) const {
  double backward = 0;
  double end = 0;
  for (std::size_t i = 0; i < durations.size(); ++i) {
    const double ready = profile_.beside ? profile_.ready_seconds[i] : 0;
    backward = std::max(backward, ready);
    end = std::max(end, ready) + slower * profile_.slowdown * durations[i];
  }
  return end - backward;
}

// A wire slower by a quarter is assumed, since steps differ: a transfer that hides only on a wire that is
// never late does not count as hidden.
std::set<ParamId> StepForecast::worth_compressing() const {
  constexpr double slower = 1.25;
  constexpr double rounding = 1e-9;
  const PowerSgdOptions options{.rank = rank_};
  using Saving = std::tuple<double, std::string, ParamId, std::size_t>;
  std::vector<Saving> savings;
  std::set<ParamId> tensors;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    for (const ParamId id : buckets_[i].params) {
      if (!is_compressible(shape(id), options)) continue;
      const double saving = duration({{id}}, {}) - duration({{id}}, {id});
      savings.emplace_back(saving, plan_.layout().name(id), id, i);
      tensors.insert(id);
    }
  }
  std::ranges::sort(savings);
  std::vector<double> all = durations(tensors);
  double best = exposed(all, slower);
  for (const auto& [saving, name, id, bucket] : savings) {
    tensors.erase(id);
    const double with_code = std::exchange(all[bucket], duration(buckets_[bucket], tensors));
    const double without = exposed(all, slower);
    if (without <= best * (1 + rounding)) {
      best = without;
      continue;
    }
    tensors.insert(id);
    all[bucket] = with_code;
  }
  return tensors;
}

}  // namespace weft::detail
