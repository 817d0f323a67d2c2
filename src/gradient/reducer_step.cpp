// A step of the reducer: gradients come, buckets leave, means are waited for.

#include <algorithm>
#include <utility>

#include "core/elementwise.hpp"
#include "gradient/reducer_state.hpp"
#include "weft/core/copy.hpp"

namespace weft {

using detail::ReadyTracker;
using detail::Wire;

// False where no rank has a batch any more: then there is no step.
bool GradientReducer::State::open_step(Exchange exchange, bool has_batch) {
  expect_finished("begin_step before finish_step");
  const bool fresh = micro_steps_ == 0 || exchange_ == Exchange::now;
  const int micro_steps = fresh ? 1 : micro_steps_ + 1;
  if (parts_ && has_batch && (exchange == Exchange::now) != (micro_steps == parts_->here())) {
    refuse("begin_step",
           text("micro-batch ", micro_steps, " of this rank's ", parts_->here(), " of ", options_.fixed_parts,
                " is exchanged ", exchange == Exchange::now ? "now" : "later"),
           "exchange with the last one");
  }
  const bool counts_from_here = bad_values_ && (windows_ ? fresh : exchange == Exchange::now);
  if (counts_from_here) bad_values_->found();
  if (exchange == Exchange::now) {
    if (observed_ && observed_->enough()) plan_from_what_was_seen();
    if (rest_) rest_->begin_step(comm_, has_batch);
    if (!has_batch && rest_->count() == 0) return false;
  }
  micro_steps_ = micro_steps;
  exchange_ = exchange;
  ready_->begin_step();
  used_.begin_micro_step(fresh);
  next_bucket_ = 0;
  open_ = true;
  if (counts_from_here) bad_values_->begin_step(comm_.device().is_host() ? Stream() : wire_->lane(0));
  if (windows_) windows_->begin_micro_step(reduced_);
  if (exchange == Exchange::later) {
    times_ = clock_.aside();
    return true;
  }
  if (observed_ && hook_->settled()) observed_->begin_step();
  clock_.begin_step(ready_->step());
  times_ = clock_.step();
  watch_for_slow_ranks();
  return true;
}

// A step that takes three times as long as usual has waited for two steps' time. What is shorter than anybody
// would notice is the machine's scheduling.
void GradientReducer::State::watch_for_slow_ranks() {
  constexpr std::uint64_t now_and_then = 16;
  if (ready_->step() % now_and_then != 0) return;
  if (const auto median = clock_.median_step())
    comm_.slow_after(std::max<Wire::Clock::duration>(2 * *median, std::chrono::milliseconds(250)));
}

void GradientReducer::State::mark_ready(ParamId id, ConstView gradient, const Stream& stream) {
  expect_known(id, "mark_ready");
  const View place = this->place(id);
  if (gradient.count() != place.count() || gradient.dtype() != place.dtype()) {
    refuse("mark_ready",
           text("the gradient of ", layout().name(id), " has ", gradient.count(), " ", gradient.dtype(),
                ", the parameter ", place.count(), " ", place.dtype()),
           "a parameter keeps its shape as long as the reducer");
  }
  expect_unmarked(id, stream);
  if (windows_) admit(id, stream);
  if (accumulating()) {
    detail::add(place, gradient, stream);
  } else {
    copy(place, gradient, stream);
  }
  used_.is_used(id);
  mark(id, stream);
}

void GradientReducer::State::mark_ready(ParamId id, const Stream& stream) {
  expect_known(id, "mark_ready");
  expect_unmarked(id, stream);
  if (windows_ && !windows_->was_asked(id)) {
    refuse("mark_ready", text("nobody asked in this step where the gradient of ", layout().name(id), " goes"),
           "write it to gradient(id, stream), or hand it to mark_ready");
  }
  used_.is_used(id);
  mark(id, stream);
}

void GradientReducer::State::expect_known(ParamId id, const char* call) const {
  if (!ready_->knows(id))
    throw Error(ErrorKind::usage, text("parameter ", index(id), " of ", layout().parameters()), {},
                {comm_.rank(), call, 0});
}

void GradientReducer::State::expect_unmarked(ParamId id, const Stream& stream) {
  if (!open_)
    throw Error(ErrorKind::usage, text("gradient of ", layout().name(id), " was marked ready outside a step"),
                "call begin_step first", {comm_.rank(), "mark_ready", ready_->step()});
  if (!ready_->any_marked()) {
    for (const ParamId unused : used_.expected()) mark_unused(unused, stream);
  }
  if (ready_->is_marked(id)) {
    if (used_.is_known() && std::ranges::count(used_.expected(), id) > 0) {
      refuse("mark_ready",
             text("the graph was not static: ", layout().name(id),
                  " had no gradient in the first step and has one now"),
             "use Unused::find");
    }
    refuse("mark_ready", text("gradient of ", layout().name(id), " was marked ready twice in one step"),
           "mark each parameter once, when its gradient is complete");
  }
}

void GradientReducer::State::mark(ParamId id, const Stream& stream) {
  if (parts_) parts_->fold(id, place(id), micro_steps_ - 1, stream);
  if (observed_ && exchange_ == Exchange::now) observed_->ready(id);
  ready_->mark(id, stream);
  if (exchange_ == Exchange::now || windows_) launch_closed_buckets(stream);
}

// What earlier micro-steps left stays; without any, it is what the step before left.
void GradientReducer::State::mark_unused(ParamId id, const Stream& stream) {
  if (!accumulating()) detail::fill(place(id), 0, stream);
  used_.is_unused(id);
  mark(id, stream);
}

void GradientReducer::State::launch_closed_buckets(const Stream& stream) {
  const std::size_t buckets = plan_->buckets().size();
  if (next_bucket_ == buckets || !ready_->is_closed(next_bucket_)) return poll();
  const auto begin = Wire::Clock::now();
  while (next_bucket_ < buckets && ready_->is_closed(next_bucket_)) launch(next_bucket_++, stream);
  if (!wire_->is_inline()) return;
  const auto carried = Wire::Clock::now() - begin;
  times_->carried(carried);
  wire_->lost(carried);
}

void GradientReducer::State::poll() {
  if (!open_ || (next_bucket_ == 0 && !windows_) || !wire_->is_inline()) return;
  const auto begin = Wire::Clock::now();
  wire_->poll();
  const auto carried = Wire::Clock::now() - begin;
  times_->carried(carried);
  wire_->lost(carried);
}

void GradientReducer::State::launch(std::size_t bucket, const Stream& stream) {
  Stream lane = wire_->lane(bucket);
  const bool on_host = stream.device().is_host();
  const auto step = times_;
  if (on_host) Stream(stream).run([step, bucket] { step->buckets[bucket].ready = Wire::Clock::now(); });
  for (const Stream& producer : ready_->producers(bucket)) lane.wait(producer.record());
  reduce(bucket, stream, lane);
  if (on_host) lane.run([step, bucket] { step->buckets[bucket].ended = Wire::Clock::now(); });
  reduced_[bucket] = lane.record();
  if (listener_ && exchange_ == Exchange::now) listener_(plan_->buckets()[bucket], reduced_[bucket]);
}

void GradientReducer::State::reduce(std::size_t bucket, const Stream& stream, const Stream& lane) {
  const Bucket& range = plan_->buckets()[bucket];
  const View gradient = space_.slice(range.begin, range.count());
  const auto [begin, end] = landing(range);
  View mine = gradient.slice(begin - range.begin, end - begin);
  if (windows_) windows_->clear_gaps(bucket, gradient, lane);
  if (bad_values_) bad_values_->count(range, space_, lane);
  if (options_.means == Means::sharded) {
    hook_->reduce_scatter(range, gradient, mine, comm_, stream, lane);
  } else {
    hook_->reduce(range, gradient, comm_, stream, lane);
  }
  if (windows_) {
    windows_->store().take(bucket, mine, micro_steps_ > 1, lane);
    mine = windows_->store().part(bucket);
    if (exchange_ == Exchange::later) return;
  }
  // Once, after the reduction: then N ranks with one part each and one rank with N parts round alike.
  if (micro_steps_ > 1) detail::divide(mine, micro_steps_, lane);
  if (rest_) rest_->correct(mine, comm_.size(), lane);
  if (!squares_) return;
  // In an arena, a block may begin in another bucket.
  if (windows_) {
    squares_->landed({begin, end}, mine, begin, lane);
  } else {
    squares_->landed({begin, end}, memory_.view(), 0, lane);
  }
}

void GradientReducer::State::finish_step(Stream stream, const BucketConsumer& consume) {
  if (!open_)
    throw Error(ErrorKind::usage, "no step is open", "call begin_step first",
                {comm_.rank(), "finish_step", ready_->step()});
  if (!ready_->all_marked()) settle_unmarked(stream);
  open_ = false;
  if (exchange_ == Exchange::later) return;
  used_.tell(comm_);
  if (bad_values_) bad_values_->tell(comm_, ready_->step(), reduced_);
  for (std::size_t bucket = 0; bucket < reduced_.size(); ++bucket) {
    // In windows, whoever writes to a place next waits for it, too.
    Event reduced = windows_ ? reduced_[bucket] : std::exchange(reduced_[bucket], {});
    wait_for(stream, std::move(reduced), [step = times_, bucket](auto begin, auto end) {
      step->buckets[bucket].wait_begin = begin;
      step->buckets[bucket].wait_end = end;
    });
    if (consume) consume(plan_->buckets()[bucket]);
  }
  join_asides(stream);
  if (warm_up_ && warm_up_->end_step()) warm_up_.reset();
}

// What ranks tell each other beside the buckets lies on streams that nobody else may ever look at; and an
// operation that is not carried on holds up those that come 32 later. A device's stream is not made to wait
// for the host: there the next step looks.
void GradientReducer::State::join_asides(Stream& stream) {
  if (!stream.device().is_host()) return;
  stream.wait(used_.told());
  if (rest_) stream.wait(rest_->told());
  if (bad_values_) stream.wait(bad_values_->told());
}

void GradientReducer::State::settle_unmarked(const Stream& stream) {
  if (options_.unused != Unused::refuse && !ready_->any_marked()) {
    for (const ParamId unused : used_.expected()) mark_unused(unused, stream);
  }
  const std::vector<ParamId> missing = ready_->missing();
  if (missing.empty()) return;
  if (options_.unused == Unused::refuse) {
    refuse("finish_step", ReadyTracker::list(missing, layout()),
           "mark every parameter once per step, or say with ReducerOptions::unused what it means");
  }
  if (used_.is_known()) {
    refuse("finish_step",
           text("the graph was not static: ", ReadyTracker::list(missing, layout()),
                ", which had gradients in the first step"),
           "use Unused::find");
  }
  for (const ParamId id : missing) mark_unused(id, stream);
}

void GradientReducer::State::join(Stream stream, const std::function<void()>& each) {
  if (!rest_)
    throw Error(ErrorKind::usage, "join() of a reducer whose ranks have equally many batches",
                "set ReducerOptions::uneven", {comm_.rank(), "join", ready_->step()});
  micro_steps_ = 0;
  while (open_step(Exchange::now, false)) {
    for (int i = layout().parameters() - 1; i >= 0; --i) {
      if (!ready_->is_marked(ParamId{i})) mark_unused(ParamId{i}, stream);
    }
    finish_step(stream, nullptr);
    stream.synchronize();
    if (each) each();
  }
}

// The others wait for this rank's buckets: they hear at once that those will not come, and why.
void GradientReducer::State::refuse(const char* call, const std::string& problem, const std::string& advice) {
  const Error error(ErrorKind::usage, problem, advice, {comm_.rank(), call, ready_->step()});
  comm_.give_up(error);
  throw error;
}

void GradientReducer::State::expect_finished(const char* call) {
  if (!open_) return;
  const std::vector<ParamId> missing = ready_->missing();
  refuse(call, missing.empty() ? "the step before is not finished" : ReadyTracker::list(missing, layout()),
         missing.empty() ? "call finish_step first" : "mark every parameter once per step");
}

}  // namespace weft
