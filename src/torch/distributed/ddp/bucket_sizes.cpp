#include <algorithm>

#include "torch/distributed/ddp/model.hpp"

namespace weft::distributed {
namespace {

/// Plans fill buckets from the last parameter on.
ParamLayout layout_of(const GradientTimes& gradients) {
  std::vector<ParamSpec> specs;
  for (auto count = gradients.counts.rbegin(); count != gradients.counts.rend(); ++count)
    specs.push_back({text("gradient ", gradients.counts.rend() - count), *count});
  return {gradients.dtype, std::move(specs)};
}

// DDP has no gaps between gradients. A plan whose buckets leave in another order than they lie, as it may be where
// backward jumps, is sorted: DDP sends them as they lie.
std::vector<std::int64_t> sizes_of(const BucketPlan& plan) {
  std::vector<Bucket> buckets = plan.buckets();
  std::ranges::sort(buckets, std::greater(), &Bucket::begin);
  std::vector<std::int64_t> sizes;
  for (const Bucket& bucket : buckets) {
    std::int64_t count = 0;
    for (const ParamId id : bucket.params) count += plan.layout().count(id);
    sizes.push_back(count * static_cast<std::int64_t>(size_of(plan.layout().dtype())));
  }
  return sizes;
}

}  // namespace

std::vector<std::int64_t> bucket_sizes(const GradientTimes& gradients,
                                       std::span<const LinkModel::Sample> link) {
  const std::vector<double> ready(gradients.ready_seconds.rbegin(), gradients.ready_seconds.rend());
  return sizes_of(plan_buckets(layout_of(gradients), ready, LinkModel::fit(link)));
}

std::vector<std::int64_t> bucket_sizes(const GradientTimes& gradients, std::size_t bytes) {
  return sizes_of(plan_buckets(layout_of(gradients), bytes));
}

}  // namespace weft::distributed
