// What a reducer adds to the meter of its communicator: after each step a few numbers that it has anyway, and
// for each bucket what its hook has sent. Which rank is late is known to all ranks together only, so that
// accounts are taken now and then (Meter::account_every).

#include "collectives/diagnosis/counters.hpp"
#include "gradient/reducer/reducer_state.hpp"

namespace weft {

// Adds the account of a step to the meter when the trainer asks for it.
void GradientReducer::State::count_account(const StepHistory& history) {
  for (const StepAccount& step : history.steps) {
    counters_->accounted_steps.add();
    counters_->accounted.add(step.seconds);
    counters_->link_busy.add(step.link_seconds);
    counters_->overlap.add(step.overlap_seconds);
    counters_->late_wait.add(step.slowest_seconds);
    counters_->skew.add(step.skew_seconds);
    counters_->late.add(step.late_seconds);
  }
}

// While the first steps are observed, their times belong to the plan.
void GradientReducer::State::account_now_and_then() {
  const int every = counters_->account_every.load(std::memory_order_relaxed);
  if (every > 0 && !observed_ && clock_.kept() >= static_cast<std::size_t>(every)) account();
}

void GradientReducer::State::count_step() {
  counters_->gradients_exposed.add(exposed_.of(wire_->exposed_seconds()));
  counters_->step_finished(this, step_began_);
}

// Each of N ranks sends 2 (N - 1) / N of a bucket in an all-reduce, and half of that in a reduce-scatter.
void GradientReducer::State::count_bucket(const Bucket& bucket, std::uint64_t sent) {
  const auto ranks = static_cast<std::uint64_t>(comm_.size());
  const auto bytes = static_cast<std::uint64_t>(bucket.count()) * size_of(layout_.dtype());
  const std::uint64_t ways = options_.means == Means::sharded ? 1 : 2;
  counters_->gradient_raw_bytes.add(ways * bytes * (ranks - 1) / ranks);
  counters_->gradient_wire_bytes.add(sent);
}

}  // namespace weft
