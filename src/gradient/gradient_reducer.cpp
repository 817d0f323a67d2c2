#include "weft/gradient/gradient_reducer.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/elementwise.hpp"

namespace weft {

/// Time that compute streams waited. Written by the stream's thread, read by the host.
struct GradientReducer::Exposure {
  using Clock = std::chrono::steady_clock;

  void add(Clock::duration waited) { nanoseconds += std::chrono::nanoseconds(waited).count(); }

  std::atomic<std::int64_t> nanoseconds{0};
};

namespace {

/// Agreement costs one small all_gather at construction; a plan that differs would hang or mix gradients
/// later.
void agree_on(Communicator& comm, const BucketPlan& plan) {
  constexpr std::int64_t words = 4;
  const std::array<std::int64_t, words> mine{static_cast<std::int64_t>(plan.layout().hash()),
                                             plan.layout().parameters(), plan.layout().size(),
                                             static_cast<std::int64_t>(plan.hash())};
  std::vector<std::int64_t> all(static_cast<std::size_t>(words * comm.size()));
  Stream stream;
  comm.all_gather(ConstView(std::span(mine)), View(std::span(all)), stream).wait();
  for (int rank = 1; rank < comm.size(); ++rank) {
    const std::int64_t* theirs = &all[static_cast<std::size_t>(words * rank)];
    if (std::equal(theirs, theirs + words, all.begin())) continue;
    const bool same_layout = theirs[0] == all[0];
    throw Error(
        ErrorKind::mismatch,
        same_layout ? text("ranks 0 and ", rank, " plan different buckets for the same parameters")
                    : text("ranks 0 and ", rank, " have different parameters: ", all[1], " of ", all[2],
                           " elements and ", theirs[1], " of ", theirs[2], " elements"),
        same_layout ? "use the same bucket_bytes on every rank" : "build the same model on every rank",
        {comm.rank(), "GradientReducer", 0});
  }
}

std::size_t default_bucket_bytes(const Communicator& comm) {
  return std::size_t{comm.topology().nodes() == 1 ? 1U : 25U} << 20;
}

}  // namespace

GradientReducer::GradientReducer(Communicator comm, const ParamLayout& layout, ReducerOptions options)
    : comm_(std::move(comm)),
      plan_(plan_buckets(layout, options.bucket_bytes.value_or(default_bucket_bytes(comm_)))),
      hook_(options.hook ? std::move(options.hook) : all_reduce_hook()),
      wire_(options.wire ? *options.wire : comm_.progress_stream()),
      exposure_(std::make_shared<Exposure>()),
      bucket_of_(static_cast<std::size_t>(layout.parameters())),
      marked_in_(bucket_of_.size()),
      unmarked_(plan_.buckets().size()),
      producers_(plan_.buckets().size()) {
  if (!is_floating(layout.dtype())) {
    throw Error(ErrorKind::usage, text("gradients of type ", layout.dtype()), "gradients are floating-point");
  }
  agree_on(comm_, plan_);
  arena_ = comm_.allocate(layout.dtype(), layout.size());
  for (std::size_t bucket = 0; bucket < plan_.buckets().size(); ++bucket) {
    for (const ParamId id : plan_.buckets()[bucket].params) bucket_of_[index(id)] = bucket;
  }
}

void GradientReducer::begin_step(Exchange exchange) {
  if (open_) refuse_unmarked("begin_step before finish_step");
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
  if (index(id) >= bucket_of_.size()) {
    throw Error(ErrorKind::usage, text("parameter ", index(id), " of ", bucket_of_.size()), {},
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
  ++marked_;
  const std::size_t bucket = bucket_of_[index(id)];
  if (std::ranges::find(producers_[bucket], stream) == producers_[bucket].end())
    producers_[bucket].push_back(stream);
  --unmarked_[bucket];
  if (exchange_ == Exchange::now) launch_closed_buckets(stream);
}

void GradientReducer::launch_closed_buckets(const Stream& stream) {
  if (next_bucket_ == unmarked_.size() || unmarked_[next_bucket_] > 0) return poll();
  const auto begin = Exposure::Clock::now();
  while (next_bucket_ < unmarked_.size() && unmarked_[next_bucket_] == 0) launch(next_bucket_++, stream);
  if (wire_.is_inline()) exposure_->add(Exposure::Clock::now() - begin);
}

void GradientReducer::poll() {
  if (!open_ || next_bucket_ == 0 || !wire_.is_inline()) return;
  const auto begin = Exposure::Clock::now();
  wire_.poll();
  exposure_->add(Exposure::Clock::now() - begin);
}

void GradientReducer::launch(std::size_t bucket, const Stream& stream) {
  for (const Stream& producer : producers_[bucket]) wire_.wait(producer.record());
  const Bucket& range = plan_.buckets()[bucket];
  const View gradient = gradients().slice(range.begin, range.count());
  hook_->reduce(range, gradient, comm_, stream, wire_);
  // Once, after the reduction: then N ranks with one part each and one rank with N parts round alike.
  if (micro_steps_ > 1) wire_.run([gradient, parts = micro_steps_] { detail::divide(gradient, parts); });
}

void GradientReducer::finish_step(Stream stream) {
  if (!open_ || marked_ != layout().parameters()) refuse_unmarked("finish_step");
  open_ = false;
  if (exchange_ == Exchange::later) return;

  /// Waits for the wire on the compute stream and accounts for the time that took.
  class Join final : public Task {
   public:
    Join(Event event, std::shared_ptr<Exposure> exposure)
        : event_(std::move(event)), exposure_(std::move(exposure)) {}
    bool advance() override {
      if (!begin_) begin_ = Exposure::Clock::now();
      if (!event_.done()) return false;
      exposure_->add(Exposure::Clock::now() - *begin_);
      if (const auto error = event_.error()) std::rethrow_exception(error);
      return true;
    }

   private:
    Event event_;
    std::shared_ptr<Exposure> exposure_;
    std::optional<Exposure::Clock::time_point> begin_;
  };
  stream.submit(std::make_unique<Join>(wire_.record(), exposure_));
}

double GradientReducer::exposed_seconds() const {
  return static_cast<double>(exposure_->nanoseconds.load()) * 1e-9;
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
