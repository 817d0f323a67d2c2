// A step of the reducer.
//
// begin_step: resets what is counted per step, and starts the all_reduces that options ask for. mark_ready:
// counts the gradient in its buckets. While the next bucket of the plan is complete, it is launched:
//   1. its stream of the wire (a lane) waits for the streams that wrote its gradients;
//   2. gaps are cleared (in a bucket ring) and bad values counted; the hook reduces the bucket;
//   3. in a bucket ring, this rank's part moves to the store;
//   4. the mean is divided by the number of micro-batches, rescaled for ranks without a batch, and its squares
//      summed;
//   5. an event of the lane marks the end.
// finish_step: the caller's stream waits for the events of all buckets, in plan order. All of this is
// submitted to streams, and the host does not wait for it. There are three exceptions: the calling thread
// carries an inline wire itself; begin_step waits for what ranks shared of the last step, and for the plan;
// and UnevenInputs::correct() waits on a device.

#include <algorithm>
#include <utility>

#include "core/memory/elementwise.hpp"
#include "core/streams/stream_state.hpp"
#include "gradient/bucket_ring/ring_gradients.hpp"
#include "gradient/hooks/deterministic_tree.hpp"
#include "gradient/reducer/gradient_stats.hpp"
#include "gradient/reducer/observed_steps.hpp"
#include "gradient/reducer/ready_tracker.hpp"
#include "gradient/reducer/reducer_state.hpp"
#include "gradient/reducer/uneven_inputs.hpp"
#include "weft/core/copy.hpp"

namespace weft {

using detail::ReadyTracker;
using detail::Wire;

// Returns false, and opens no step, when no rank has a batch any more.
bool GradientReducer::State::open_step(Exchange exchange, bool has_batch) {
  expect_finished("begin_step before finish_step");
  const bool fresh = micro_steps_ == 0 || exchange_ == Exchange::now;
  const int micro_steps = fresh ? 1 : micro_steps_ + 1;
  if (tree_ && has_batch && (exchange == Exchange::now) != (micro_steps == tree_->per_rank())) {
    refuse("begin_step",
           text("micro-batch ", micro_steps, " of this rank's ", tree_->per_rank(), " of ",
                hook_->micro_batches(),
                " begins with Exchange::", exchange == Exchange::now ? "now" : "no_sync"),
           "pass Exchange::now with the last one, Exchange::no_sync with those before");
  }
  if (exchange == Exchange::now && has_batch && !shares_.takes(micro_steps, ring_ != nullptr))
    refuse("begin_step", text(micro_steps, " micro-step(s) of this rank for ", shares_.words()),
           "take that share of every step; a rank with a share of 0 takes one micro-step with gradients of "
           "zero");
  const bool counts_from_here = bad_values_ && (ring_ ? fresh : exchange == Exchange::now);
  if (counts_from_here) bad_values_->found();
  if (fresh) step_began_ = Wire::Clock::now();
  if (exchange == Exchange::now) {
    account_now_and_then();
    if (observed_ && observed_->enough()) plan_from_observed_steps();
    if (seen_ && !seen_->empty()) order_as_seen();
    if (uneven_) uneven_->begin_step(comm_, has_batch);
    if (!has_batch && uneven_->ranks_left() == 0) return false;
  }
  micro_steps_ = micro_steps;
  exchange_ = exchange;
  ready_->begin_step();
  used_.begin_micro_step(fresh);
  std::ranges::fill(in_place_, View());
  next_bucket_ = 0;
  open_ = true;
  if (counts_from_here) bad_values_->begin_step(comm_.device().is_host() ? Stream() : wire_->lane(0));
  if (ring_) ring_->begin_micro_step(reduced_);
  if (exchange == Exchange::no_sync) {
    times_ = clock_.unaccounted();
    return true;
  }
  if (device_clock_) device_clock_->collect();
  if (device_clock_ && observed_)
    device_clock_->finish(Deadline::in(comm_.timeout()));  // its plan needs all times
  if (observed_ && hook_->settled())
    observed_->begin_step(device_clock_ ? &*device_clock_ : nullptr, compute_);
  clock_.begin_step(ready_->step());
  times_ = clock_.step();
  if (compute_) note(*compute_, times_->begin);
  watch_for_slow_ranks();
  return true;
}

// A rank is slow if its step takes three times as long as usual: the other ranks then wait for two medians.
// Waits below 250 ms are attributed to the machine's scheduling. The median is updated every 16 steps.
void GradientReducer::State::watch_for_slow_ranks() {
  constexpr std::uint64_t now_and_then = 16;
  if (ready_->step() % now_and_then != 0) return;
  if (const auto median = clock_.median_step())
    comm_.slow_after(std::max<Wire::Clock::duration>(2 * *median, std::chrono::milliseconds(250)));
}

void GradientReducer::State::mark_ready(ParamId id, ConstView gradient, const Stream& stream) {
  expect_known(id, "mark_ready");
  expect_shape(id, gradient);
  expect_unmarked(id, stream);
  used_.is_used(id);
  if (ring_ && (ring_->is_aside(id) || !has_place(id))) {
    copy(ring_->aside(id, layout().count(id)), gradient, stream);
    ring_->hold(id, stream);
    return place_held();
  }
  const View place = this->place(id);
  if (ring_) wait_for_places(id, stream);
  if (accumulating()) {
    detail::add(place, gradient, stream);
  } else {
    copy(place, gradient, stream);
  }
  mark(id, stream);
  if (ring_) place_held();
}

void GradientReducer::State::mark_ready(ParamId id, const Stream& stream) {
  expect_known(id, "mark_ready");
  expect_unmarked(id, stream);
  if (ring_ && !ring_->was_asked(id)) {
    refuse("mark_ready", text("no place was asked for in this step for the gradient of ", layout().name(id)),
           "write it to gradient(id, stream), or hand it to mark_ready");
  }
  used_.is_used(id);
  if (ring_ && ring_->is_aside(id)) {
    ring_->hold(id, stream);
  } else {
    mark(id, stream);
  }
  if (ring_) place_held();
}

void GradientReducer::State::expect_known(ParamId id, const char* call) const {
  if (!ready_->knows(id))
    throw Error(ErrorKind::usage,
                text("parameter ", static_cast<std::int32_t>(id), " of ", layout().parameters()),
                text("parameters are 0 to ", layout().parameters() - 1), {comm_.rank(), call, 0});
}

void GradientReducer::State::expect_shape(ParamId id, ConstView gradient) {
  if (gradient.count() == layout().count(id) && gradient.dtype() == layout().dtype()) return;
  refuse("mark_ready",
         text("the gradient of ", layout().name(id), " has ", gradient.count(), " ", gradient.dtype(),
              ", the parameter ", layout().count(id), " ", layout().dtype()),
         "a parameter keeps its shape as long as the reducer");
}

void GradientReducer::State::expect_unmarked(ParamId id, const Stream& stream) {
  if (!open_)
    throw Error(ErrorKind::usage, text("gradient of ", layout().name(id), " was marked ready outside a step"),
                "call begin_step first", {comm_.rank(), "mark_ready", ready_->step()});
  if (!ready_->any_marked()) {
    for (const ParamId unused : used_.expected()) mark_unused(unused, stream);
  }
  if (ready_->is_marked(id) || (ring_ && ring_->holds(id))) {
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
  if (tree_) tree_->add_micro_batch(id, place(id), micro_steps_ - 1, stream);
  if (seen_ && exchange_ == Exchange::now) seen_->push_back(id);
  if (observed_ && exchange_ == Exchange::now)
    observed_->ready(id, device_clock_ ? &*device_clock_ : nullptr, stream);
  ready_->mark(id, stream);
  if (exchange_ == Exchange::now || ring_) launch_closed_buckets(stream);
}

// What earlier micro-steps added stays. In the first micro-step its place holds a mean of the last step, and
// is cleared.
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
  wire_->add_exposed(carried);
}

void GradientReducer::State::share_bad_values() {
  const bool counts = bad_values_ && open_ && exchange_ == Exchange::now;
  if (!counts || bad_values_left_ || !ready_->all_marked())
    throw Error(ErrorKind::usage,
                text("share_bad_values() ", !counts            ? "outside a step that counts them"
                                            : bad_values_left_ ? "twice in one step"
                                                               : "before every parameter is marked"),
                "call it once in a step, between the last mark_ready and finish_step, with count_bad_values",
                {comm_.rank(), "share_bad_values", ready_->step()});
  bad_values_->share(comm_, ready_->step(), reduced_);
  bad_values_left_ = true;
}

void GradientReducer::State::poll() {
  if (bad_values_left_) bad_values_->poll();
  if (!open_ || (next_bucket_ == 0 && !ring_) || !wire_->is_inline()) return;
  const auto begin = Wire::Clock::now();
  wire_->poll();
  const auto carried = Wire::Clock::now() - begin;
  times_->carried(carried);
  wire_->add_exposed(carried);
}

void GradientReducer::State::launch(std::size_t bucket, const Stream& stream) {
  Stream lane = wire_->lane(bucket);
  detail::StepClock::Bucket& times = times_->buckets[bucket];
  note(stream, times.ready);
  for (const Stream& producer : ready_->producers(bucket)) lane.wait(producer.record());
  note(lane, times.begun);
  reduce(bucket, stream, lane);
  note(lane, times.ended);
  reduced_[bucket] = lane.record();
  if (listener_ && exchange_ == Exchange::now) listener_(plan_->buckets()[bucket], reduced_[bucket]);
}

void GradientReducer::State::note(const Stream& stream, Wire::Clock::time_point& at) {
  if (!stream.device().is_host()) {
    device_clock_->note(stream, {times_, &at});
  } else if (detail::StreamAccess::state(stream)->takes_work_at_once()) {  // it is there
    at = Wire::Clock::now();
  } else {
    Stream(stream).run([step = times_, &at] { at = Wire::Clock::now(); });
  }
}

void GradientReducer::State::reduce(std::size_t bucket, const Stream& stream, const Stream& lane) {
  const Bucket& range = plan_->buckets()[bucket];
  const View elsewhere = in_place_[bucket];
  const View gradient = elsewhere.empty() ? space_.slice(range.begin, range.count()) : elsewhere;
  const auto [begin, end] = owned(range);
  View mine = gradient.slice(begin - range.begin, end - begin);
  if (ring_) ring_->clear_gaps(bucket, gradient, lane);
  if (bad_values_) bad_values_->count(range, gradient, lane);
  const std::uint64_t sent = comm_.wire_bytes();
  if (options_.means == Means::sharded) {
    hook_->reduce_scatter(range, gradient, mine, comm_, stream, lane);
  } else {
    hook_->reduce(range, gradient, comm_, stream, lane);
  }
  count_bucket(range, comm_.wire_bytes() - sent);
  if (ring_) {
    ring_->store().store(bucket, mine, micro_steps_ > 1, lane);
    mine = ring_->store().part(bucket);
    if (exchange_ == Exchange::no_sync) return;
  }
  shares_.divide(mine, micro_steps_, lane);
  if (uneven_) uneven_->correct(mine, comm_.size(), lane);
  if (!squares_) return;
  // In an arena, a block may begin in another bucket, so that all of it is given.
  if (ring_) {
    squares_->add({begin, end}, mine, begin, lane);
  } else {
    squares_->add({begin, end}, memory_.view(), 0, lane);
  }
}

void GradientReducer::State::finish_step(Stream stream, const BucketConsumer& consume) {
  if (!open_)
    throw Error(ErrorKind::usage, "no step is open", "call begin_step first",
                {comm_.rank(), "finish_step", ready_->step()});
  if (!ready_->all_marked()) handle_unmarked(stream);
  open_ = false;
  if (exchange_ == Exchange::no_sync) return;
  if (device_clock_) compute_ = stream;
  used_.share(comm_);
  if (bad_values_ && !std::exchange(bad_values_left_, false))
    bad_values_->share(comm_, ready_->step(), reduced_);
  for (std::size_t bucket = 0; bucket < reduced_.size(); ++bucket) {
    // In a bucket ring the event is kept: streams that write to the place next wait for it, too.
    Event reduced = ring_ ? reduced_[bucket] : std::exchange(reduced_[bucket], {});
    wait_for(bucket, std::move(reduced), stream);
    if (consume) consume(plan_->buckets()[bucket]);
  }
  join_side_operations(stream);
  count_step();
  if (warm_up_ && warm_up_->end_step()) warm_up_.reset();
}

void GradientReducer::State::wait_for(std::size_t bucket, Event reduced, Stream& stream) {
  if (stream.device().is_host()) {
    const auto waited = [step = times_, bucket](auto begin, auto end) {
      step->buckets[bucket].wait_begin = begin;
      step->buckets[bucket].wait_end = end;
    };
    stream.submit(
        std::make_unique<detail::WaitForBucket<decltype(waited)>>(std::move(reduced), wire_, waited));
    return;
  }
  wire_->on_device().start(stream);
  note(stream, times_->buckets[bucket].wait_begin);
  stream.wait(std::move(reduced));
  note(stream, times_->buckets[bucket].wait_end);
  wire_->on_device().stop(stream);
}

// The small operations beside the buckets are on inline streams that nothing else polls, and an operation
// without progress blocks the one 32 operations later. So a compute stream of the host waits for them. A
// device's stream does not wait for the host: there the next step waits.
void GradientReducer::State::join_side_operations(Stream& stream) {
  if (!stream.device().is_host()) return;
  stream.wait(used_.shared());
  if (uneven_) stream.wait(uneven_->shared());
  if (bad_values_) stream.wait(bad_values_->shared());
}

void GradientReducer::State::handle_unmarked(const Stream& stream) {
  if (options_.unused != Unused::refuse && !ready_->any_marked()) {
    for (const ParamId unused : used_.expected()) mark_unused(unused, stream);
  }
  std::vector<ParamId> missing = ready_->missing();
  if (ring_) std::erase_if(missing, [this](ParamId id) { return ring_->holds(id); });  // they wait for those
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
  if (!uneven_)
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

// The other ranks wait for this rank's buckets. give_up() tells them at once that those will not come, and
// why.
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
