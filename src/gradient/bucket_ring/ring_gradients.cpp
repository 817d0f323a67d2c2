// Gradients in a bucket ring: places, parts that are kept, and the reducer's functions for them.
//
// The way of a bucket:
//   1. A stream asks for the place of a gradient. If a bucket that has the place has not been launched in
//      this step, it would never free it: an Error names the gradients that are not marked. Else the stream
//      waits for the buckets that had the place (RingPlaces::after()), those of the last step and then those
//      of this one. It waits once per bucket and micro-step.
//   2. On the wire, gaps between the bucket's parameters are set to zero, for they hold values of other
//      buckets.
//   3. A hook reduces the bucket, and this rank's part of the mean is copied or added to the ShardStore.
//   4. The event after which this is done frees the place.
// Price: one more pass over this rank's part of each bucket, and a fill of the gaps.

#include "gradient/bucket_ring/ring_gradients.hpp"

#include <algorithm>

#include "core/memory/elementwise.hpp"
#include "core/memory/host_memory.hpp"
#include "gradient/reducer/reducer_state.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {

Gaps gaps_of(const Bucket& bucket, const ParamLayout& layout) {
  Gaps gaps;
  std::int64_t covered = bucket.begin;
  const auto cover = [&](std::int64_t begin, std::int64_t end) {
    if (begin > covered) gaps.emplace_back(covered - bucket.begin, begin - bucket.begin);
    covered = std::max(covered, end);
  };
  for (int i = 0; i < layout.parameters(); ++i) {
    const std::int64_t begin = layout.offset(ParamId{i});
    const std::int64_t end = begin + layout.count(ParamId{i});
    if (end > bucket.begin && begin < bucket.end) cover(begin, std::min(end, bucket.end));
  }
  cover(bucket.end, bucket.end);
  return gaps;
}

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

void ShardStore::store(std::size_t bucket, ConstView mine, bool adds, const Stream& lane) {
  if (adds) {
    add(part(bucket), mine, lane);
  } else {
    copy(part(bucket), mine, lane);
  }
}

RingGradients::RingGradients(const BucketPlan& plan, std::int64_t capacity, Device device, int ranks,
                             bool means_on_host)
    : ring_(plan, capacity),
      store_(plan, device, ranks, means_on_host),
      earlier_(plan.buckets().size()),
      admitted_(plan.buckets().size()),
      asked_(static_cast<std::size_t>(plan.layout().parameters())) {
  for (const Bucket& bucket : plan.buckets()) gaps_.push_back(gaps_of(bucket, plan.layout()));
}

void RingGradients::begin_micro_step(std::vector<Event>& reduced) {
  earlier_.swap(reduced);
  std::ranges::fill(reduced, Event());
  for (auto& streams : admitted_) streams.clear();
  asked_.assign(asked_.size(), false);
}

bool RingGradients::admits(std::size_t bucket, const Stream& stream) {
  auto& streams = admitted_[bucket];
  if (std::ranges::find(streams, stream) != streams.end()) return true;
  streams.push_back(stream);
  return false;
}

void RingGradients::clear_gaps(std::size_t bucket, View gradient, const Stream& lane) const {
  const Gaps& gaps = gaps_[bucket];
  if (gaps.empty()) return;
  if (!lane.device().is_host()) {
    for (const auto& [begin, end] : gaps) fill(gradient.slice(begin, end - begin), 0, lane);
    return;
  }
  Stream(lane).run([gradient, &gaps] {
    for (const auto& [begin, end] : gaps) on_host::fill(gradient.slice(begin, end - begin), 0);
  });
}

}  // namespace weft::detail

namespace weft {

void GradientReducer::State::expect_ring_fits() const {
  const auto refuse_if = [](bool problem, const char* what, const char* advice) {
    if (problem) throw Error(ErrorKind::usage, text("gradients in a bucket ring ", what), advice);
  };
  refuse_if(options_.means != Means::sharded, "without sharded means",
            "a bucket ring keeps nothing: set means = Means::sharded");
  refuse_if(!std::holds_alternative<BucketPlan>(options_.buckets), "without a plan",
            "give plan_whole_buckets(...) as ReducerOptions::buckets");
  refuse_if(hook_->micro_batches() > 0, "beside a tree of micro-batches",
            "it sums micro-batches in buffers of all gradients: leave ring out");
  refuse_if(options_.unused != Unused::refuse, "beside parameters that may be unused",
            "their buckets would hold their places until the step is finished: mark every parameter, with "
            "zeros where there is no gradient, or leave ring out");
  refuse_if(options_.uneven != Uneven::refuse, "beside uneven batches",
            "give every rank equally many batches, or leave ring out");
}

void GradientReducer::State::make_ring(const BucketPlan& plan) {
  const std::int64_t elements = detail::ring_elements(plan, options_.ring->bytes);
  ring_ = std::make_unique<detail::RingGradients>(plan, elements, comm_.device(), comm_.size(),
                                                  options_.ring->means_on_host);
}

View GradientReducer::State::gradient(ParamId id, Stream stream) {
  expect_known(id, "gradient");
  if (ring_) {
    if (!open_)
      throw Error(ErrorKind::usage,
                  text("a place for the gradient of ", layout().name(id), " was asked for outside a step"),
                  "call begin_step first", {comm_.rank(), "gradient", ready_->step()});
    if (ready_->is_marked(id)) {
      refuse("gradient",
             text("the gradient of ", layout().name(id), " is marked ready: its place may be another's"),
             "ask for it before it is marked");
    }
    wait_for_places(id, std::move(stream));
  }
  return place(id);
}

void GradientReducer::State::wait_for_places(ParamId id, Stream stream) {
  const std::size_t bucket = ready_->bucket_of(id);
  const auto& after = ring_->places().after(bucket);
  if (!after.empty()) expect_launched(after.back(), id);
  ring_->ask(id);
  if (ring_->admits(bucket, stream)) return;
  for (const std::size_t other : ring_->places().after_last_step(bucket))
    wait_for_place(stream, ring_->earlier()[other]);
  for (const std::size_t other : after) wait_for_place(stream, reduced_[other]);
  // The caller of an inline stream writes at once, not in the stream's order.
  if (stream.device().is_host() && stream.is_inline()) stream.synchronize();
}

// Buckets leave in plan order: all up to `bucket` must have been launched.
void GradientReducer::State::expect_launched(std::size_t bucket, ParamId id) {
  if (bucket < next_bucket_) return;
  std::vector<ParamId> unmarked;
  for (std::size_t i = next_bucket_; i <= bucket; ++i) {
    for (const ParamId other : plan_->buckets()[i].params) {
      if (!ready_->is_marked(other)) unmarked.push_back(other);
    }
  }
  refuse("gradient",
         text("the place for the gradient of ", layout().name(id),
              " is taken until these are marked ready: ", detail::ReadyTracker::names(unmarked, layout())),
         text("let gradients come in the order of the plan, or give the ring more bytes than ",
              static_cast<std::size_t>(ring_->places().size()) * size_of(layout().dtype())));
}

void GradientReducer::State::wait_for_place(Stream& stream, const Event& left) {
  if (stream.device().is_host()) {
    const auto waited = [step = times_](auto begin, auto end) { step->carried(end - begin); };
    stream.submit(std::make_unique<detail::WaitForBucket<decltype(waited)>>(left, wire_, waited));
    return;
  }
  wire_->on_device().start(stream);
  stream.wait(left);
  wire_->on_device().stop(stream);
}

}  // namespace weft
