#include "weft/gradient/gradient_reducer.hpp"

#include <algorithm>
#include <atomic>

#include "core/cuda/stopwatch.hpp"
#include "core/elementwise.hpp"
#include "gradient/agreement.hpp"
#include "gradient/observed_steps.hpp"
#include "weft/core/log.hpp"

namespace weft {

/// The streams that carry buckets, and the time that compute streams have lost to them.
///
/// Buckets do not depend on each other. A stream with a thread of its own, or one that the trainer gave,
/// carries them one after the other; but where the compute thread itself has to carry them, each gets a
/// stream: then a bucket can be posted while those before it still wait for a rank that is late, and whoever
/// looks in works off everything that others have posted.
class GradientReducer::Wire {
 public:
  using Clock = std::chrono::steady_clock;

  Wire(const Communicator& comm, const std::optional<Stream>& given) : is_given_(given.has_value()) {
    lanes_.push_back(given ? *given : comm.progress_stream());
  }
  void serve(std::size_t buckets) {
    if (is_given_ || !is_inline()) return;
    while (lanes_.size() < std::min(buckets, most_lanes)) lanes_.emplace_back();
  }

  const Stream& lane(std::size_t bucket) const { return lanes_[bucket % lanes_.size()]; }
  bool is_inline() const { return lanes_.front().is_inline(); }
  void poll() {
    for (Stream& lane : lanes_) lane.poll();
  }

  void lost(Clock::duration waited) { lost_nanoseconds_ += std::chrono::nanoseconds(waited).count(); }
  double lost_seconds() {
    return static_cast<double>(lost_nanoseconds_.load()) * 1e-9 + on_device_.seconds();
  }
  detail::cuda::Stopwatch& on_device() { return on_device_; }

 private:
  static constexpr std::size_t most_lanes = 32;

  bool is_given_;
  std::vector<Stream> lanes_;
  std::atomic<std::int64_t> lost_nanoseconds_{0};  // written by the stream's thread, read by the host
  detail::cuda::Stopwatch on_device_;              // the same of compute streams of a device
};

/// Waits for a bucket on a compute stream of the host and accounts for the time that took.
class GradientReducer::Join final : public Task {
 public:
  Join(Event reduced, std::shared_ptr<Wire> wire) : reduced_(std::move(reduced)), wire_(std::move(wire)) {}
  bool advance() override {
    if (!begin_) begin_ = Wire::Clock::now();
    wire_->poll();  // all of it: another rank may wait for this one's part of a later bucket
    if (!reduced_.done()) return false;
    wire_->lost(Wire::Clock::now() - *begin_);
    if (const auto error = reduced_.error()) std::rethrow_exception(error);
    return true;
  }
  void rest(std::chrono::microseconds at_most) override { reduced_.rest(at_most); }

 private:
  Event reduced_;
  std::shared_ptr<Wire> wire_;
  std::optional<Wire::Clock::time_point> begin_;
};

namespace {

/// Nodes differ, and some may have a core for a thread where others have none.
bool on_all_ranks(Communicator& comm, bool here) {
  std::int32_t all = here ? 1 : 0;
  Stream stream;
  comm.all_reduce(View(std::span(&all, 1)), ReduceOp::min, stream).wait();
  return all == 1;
}

BucketPlan first_plan(const ParamLayout& layout, const Communicator& comm,
                      const std::optional<std::size_t>& bucket_bytes, bool is_planned) {
  if (is_planned) return detail::probing_plan(layout);
  return plan_buckets(layout,
                      bucket_bytes.value_or(std::size_t{comm.topology().nodes() == 1 ? 1U : 25U} << 20));
}

}  // namespace

GradientReducer::GradientReducer(Communicator comm, const ParamLayout& layout, ReducerOptions options)
    : comm_(std::move(comm)),
      means_(options.means),
      layout_(layout),
      wire_(std::make_shared<Wire>(comm_, options.wire)),
      is_planned_(on_all_ranks(comm_, !options.bucket_bytes && !wire_->is_inline() && comm_.size() > 1 &&
                                          comm_.device().is_host())),
      plan_(divisible(first_plan(layout, comm_, options.bucket_bytes, is_planned_))),
      hook_(options.hook ? std::move(options.hook) : all_reduce_hook()),
      buckets_of_(static_cast<std::size_t>(layout.parameters())),
      marked_in_(buckets_of_.size()) {
  if (!is_floating(layout.dtype())) {
    throw Error(ErrorKind::usage, text("gradients of type ", layout.dtype()), "gradients are floating-point");
  }
  wire_->serve(plan_.buckets().size());
  if (is_planned_) observed_ = std::make_shared<detail::ObservedSteps>(plan_);
  adopt(plan_);
  arena_ = comm_.allocate(layout.dtype(), std::max(layout.size(), plan_.buckets().front().end));
}

BucketPlan GradientReducer::divisible(BucketPlan plan) const {
  if (means_ == Means::everywhere) return plan;
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(plan.layout().dtype()));
  return aligned(plan, line * comm_.size());
}

View GradientReducer::means(const Bucket& bucket) {
  const View whole = arena_.view().slice(bucket.begin, bucket.count());
  if (means_ == Means::everywhere) return whole;
  const std::int64_t part = bucket.count() / comm_.size();
  return whole.slice(part * comm_.rank(), part);
}

void GradientReducer::adopt(BucketPlan plan) {
  detail::agree_on(comm_, plan);
  plan_ = std::move(plan);
  hook_->planned(plan_);
  const std::size_t buckets = plan_.buckets().size();
  unmarked_.assign(buckets, 0);
  producers_.assign(buckets, {});
  reduced_.assign(buckets, {});
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    for (const ParamId id : plan_.buckets()[bucket].params) buckets_of_[index(id)].last = bucket;
  }
  for (std::size_t bucket = buckets; bucket-- > 0;) {
    for (const ParamId id : plan_.buckets()[bucket].params) buckets_of_[index(id)].first = bucket;
  }
}

void GradientReducer::plan_from_what_was_seen() {
  for (std::size_t bucket = 0; bucket < reduced_.size(); ++bucket) Stream(wire_->lane(bucket)).synchronize();
  profile_ = observed_->agree(comm_, plan_, wire_->lane(0));
  const auto& [ready_seconds, link] = *profile_;
  observed_.reset();
  // Steps differ, and a bucket waits for the last of its gradients: none is so large that smaller ones would
  // cost more than a fiftieth of its time.
  constexpr double worth_a_latency = 50;
  const double most_bytes = std::max(1.0, worth_a_latency * link.latency_seconds * link.bytes_per_second);
  BucketPlan planned = divisible(
      plan_buckets(layout(), ready_seconds, link, static_cast<std::size_t>(std::min(most_bytes, 1e15))));
  log::info(text("rank ", comm_.rank(), ": buckets of ", link.latency_seconds * 1e6, " us and ",
                 link.bytes_per_second * 1e-9, " GB/s; exposed ",
                 forecast(plan_, ready_seconds, link).exposed_seconds * 1e3, " ms in ",
                 plan_.buckets().size(), " buckets, planned ",
                 forecast(planned, ready_seconds, link).exposed_seconds * 1e3, " ms in ",
                 planned.buckets().size()));
  first_plan_ = std::move(plan_);
  adopt(std::move(planned));
}

void GradientReducer::begin_step(Exchange exchange) {
  if (open_) refuse_unmarked("begin_step before finish_step");
  if (observed_ && exchange == Exchange::now) {
    if (observed_->enough()) {
      plan_from_what_was_seen();
    } else {
      observed_->begin_step();
    }
  }
  const bool fresh = micro_steps_ == 0 || exchange_ == Exchange::now;
  micro_steps_ = fresh ? 1 : micro_steps_ + 1;
  exchange_ = exchange;
  ++step_;
  marked_ = 0;
  next_bucket_ = 0;
  open_ = true;
  for (std::size_t bucket = 0; bucket < unmarked_.size(); ++bucket) {
    unmarked_[bucket] = plan_.buckets()[bucket].params.size();
    producers_[bucket].clear();
  }
}

void GradientReducer::mark_ready(ParamId id, const Stream& stream) {
  if (index(id) >= buckets_of_.size()) {
    throw Error(ErrorKind::usage, text("parameter ", index(id), " of ", buckets_of_.size()), {},
                {comm_.rank(), "mark_ready", 0});
  }
  if (!open_ || marked_in_[index(id)] == step_) {
    throw Error(ErrorKind::usage,
                text("gradient of ", layout().name(id),
                     open_ ? " was marked ready twice in one step" : " was marked ready outside a step"),
                open_ ? "mark each parameter once, when its gradient is complete" : "call begin_step first",
                {comm_.rank(), "mark_ready", step_});
  }
  marked_in_[index(id)] = step_;
  if (observed_) observed_->ready(id);
  ++marked_;
  const auto [first, last] = buckets_of_[index(id)];
  for (std::size_t bucket = first; bucket <= last; ++bucket) {
    if (std::ranges::find(producers_[bucket], stream) == producers_[bucket].end())
      producers_[bucket].push_back(stream);
    --unmarked_[bucket];
  }
  if (exchange_ == Exchange::now) launch_closed_buckets(stream);
}

void GradientReducer::launch_closed_buckets(const Stream& stream) {
  if (next_bucket_ == unmarked_.size() || unmarked_[next_bucket_] > 0) return poll();
  const auto begin = Wire::Clock::now();
  while (next_bucket_ < unmarked_.size() && unmarked_[next_bucket_] == 0) launch(next_bucket_++, stream);
  if (wire_->is_inline()) wire_->lost(Wire::Clock::now() - begin);
}

void GradientReducer::poll() {
  if (!open_ || next_bucket_ == 0 || !wire_->is_inline()) return;
  const auto begin = Wire::Clock::now();
  wire_->poll();
  wire_->lost(Wire::Clock::now() - begin);
}

void GradientReducer::launch(std::size_t bucket, const Stream& stream) {
  Stream lane = wire_->lane(bucket);
  for (const Stream& producer : producers_[bucket]) lane.wait(producer.record());
  const Bucket& range = plan_.buckets()[bucket];
  const View gradient = arena_.view().slice(range.begin, range.count());
  if (means_ == Means::sharded) {
    hook_->reduce_scatter(range, gradient, means(range), comm_, stream, lane);
  } else {
    hook_->reduce(range, gradient, comm_, stream, lane);
  }
  if (observed_ && observed_->counts()) {
    lane.run([seen = observed_, place = observed_->place_of(bucket), closed = Wire::Clock::now()] {
      seen->ended(place, closed);
    });
  }
  // Once, after the reduction: then N ranks with one part each and one rank with N parts round alike.
  if (micro_steps_ > 1) detail::divide(means(range), micro_steps_, lane);
  reduced_[bucket] = lane.record();
}

void GradientReducer::finish_step(Stream stream, const BucketConsumer& consume) {
  if (!open_ || marked_ != layout().parameters()) refuse_unmarked("finish_step");
  open_ = false;
  if (exchange_ == Exchange::later) return;
  for (std::size_t bucket = 0; bucket < reduced_.size(); ++bucket) {
    join(stream, std::exchange(reduced_[bucket], {}));
    if (consume) consume(plan_.buckets()[bucket]);
  }
}

void GradientReducer::join(Stream& stream, Event reduced) {
  if (stream.device().is_host()) {
    stream.submit(std::make_unique<Join>(std::move(reduced), wire_));
    return;
  }
  wire_->on_device().start(stream);
  stream.wait(std::move(reduced));
  wire_->on_device().stop(stream);
}

double GradientReducer::exposed_seconds() const {
  return wire_->lost_seconds();
}

void GradientReducer::refuse_unmarked(const char* call) const {
  if (!open_) {
    throw Error(ErrorKind::usage, "no step is open", "call begin_step first", {comm_.rank(), call, step_});
  }
  constexpr int most = 5;
  std::ostringstream names;
  int listed = 0;
  for (int i = 0; i < layout().parameters(); ++i) {
    if (marked_in_[static_cast<std::size_t>(i)] == step_ || listed == most) continue;
    names << (listed++ == 0 ? "" : ", ") << layout().name(ParamId{i});
  }
  const int missing = layout().parameters() - marked_;
  throw Error(ErrorKind::usage,
              missing == 0
                  ? text("the step before is not finished")
                  : text(missing, " of ", layout().parameters(),
                         " parameters were never marked ready: ", names.str(), missing > most ? ", ..." : ""),
              missing == 0 ? "call finish_step first" : "mark every parameter once per step",
              {comm_.rank(), call, step_});
}

}  // namespace weft
