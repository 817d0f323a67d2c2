#include "gradient/shard_store.hpp"

#include "core/elementwise.hpp"
#include "core/pinned.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {

ShardStore::ShardStore(const BucketPlan& plan, Device device, int ranks, bool on_host) {
  std::int64_t size = 0;
  for (const Bucket& bucket : plan.buckets()) {
    begins_.push_back(size);
    counts_.push_back(bucket.count() / ranks);
    size += counts_.back();
  }
  const DataType dtype = plan.layout().dtype();
  memory_ = on_host ? pinned(device, dtype, size) : Buffer::on(device, dtype, size);
  parts_ = on_device(memory_, device);
}

void ShardStore::take(std::size_t bucket, ConstView mine, bool adds, const Stream& lane) {
  if (adds) {
    add(part(bucket), mine, lane);
  } else {
    copy(part(bucket), mine, lane);
  }
}

}  // namespace weft::detail
