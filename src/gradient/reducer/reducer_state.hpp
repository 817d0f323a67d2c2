#pragma once
// The state behind a GradientReducer. Its functions are in six files: construction and what is read between
// steps (gradient_reducer.cpp), its buckets (reducer_plans.cpp), a step (reducer_step.cpp), gradients that stay
// where they are (reducer_in_place.cpp), what it counts (reducer_counts.cpp), and gradients in a bucket ring
// (reducer_ring.cpp).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/diagnosis/counters.hpp"
#include "collectives/diagnosis/used_by_one.hpp"
#include "gradient/reducer/gradient_stats.hpp"
#include "gradient/reducer/parameter_claim.hpp"
#include "gradient/reducer/ready_tracker.hpp"
#include "gradient/reducer/uneven_inputs.hpp"
#include "gradient/reducer/wire.hpp"
#include "weft/core/recycled.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft {

namespace detail {

class DeterministicTree;
class ObservedSteps;
class RingGradients;

/// Counts the first two exchanged steps after a change, such as a new plan. They take memory for their tasks
/// and events; then as much is reserved that later steps find all that they may need at once.
class WarmUp {
 public:
  /// Called when an exchanged step has been submitted. @returns whether that was the last one to count
  bool end_step() {
    if (++steps_ < 2) return false;
    taken_.reserve();
    return true;
  }

 private:
  int steps_ = 0;
  RecycledCount taken_;
};

}  // namespace detail

class GradientReducer::State {
 public:
  State(Communicator comm, const ParamLayout& layout, ReducerOptions options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// For the time of a public call. @throws Error (usage), also on the other ranks, while another thread is in one
  detail::OneThread::Turn turn(const char* call) { return users_.enter(call); }
  const ParamLayout& layout() const { return layout_; }
  const BucketPlan& plan() const { return *plan_; }
  const std::optional<BackwardProfile>& profile() const { return profile_; }
  View gradients();
  View gradient(ParamId id);
  View gradient(ParamId id, Stream stream);
  View means(const Bucket& bucket);

  void begin_step(Exchange exchange) { open_step(exchange, true); }
  bool accumulating() const { return micro_steps_ > 1 && !tree_ && !ring_; }
  void mark_ready(ParamId id, const Stream& stream);
  void mark_ready(ParamId id, ConstView gradient, const Stream& stream);
  View mark_ready_in_place(ParamId id, View gradient, const Stream& stream);
  void poll();
  void finish_step(Stream stream, const BucketConsumer& consume);
  void on_reduced(ReducedListener listener) {
    listener_ = std::move(listener);
    warm_up_.emplace();
  }
  void join(Stream stream, const std::function<void()>& each);

  bool used(ParamId id) {
    expect_known(id, "used");
    return used_.anywhere(id);
  }
  const std::vector<BadValues>& bad_values();
  void count_bad_values();
  void share_bad_values();
  ConstView squares() const;
  checkpoint::State state();
  void load_state(const checkpoint::Values& values, const checkpoint::Reader& read);
  double exposed_seconds() const { return wire_->exposed_seconds(); }
  std::int64_t held_bytes() const;
  std::int64_t host_bytes() const;
  StepHistory account();

 private:
  std::int64_t part_unit() const;
  BucketPlan divisible(BucketPlan plan) const;
  BucketPlan first_plan(const ParamLayout& layout);
  void expect_given_plan(const BucketPlan& plan, const ParamLayout& layout) const;
  void expect_ring_fits() const;
  void expect_micro_batches() const;
  void make_ring(const BucketPlan& plan);
  View place(ParamId id) const { return space_.slice(layout().offset(id), layout().count(id)); }
  void wait_for_places(ParamId id, Stream stream);
  /// Whether no bucket that has the gradient's place in a bucket ring still misses gradients.
  bool has_place(ParamId id) const;
  /// Gradients that lie aside go to places that have become free.
  void place_held();
  void wait_for_place(Stream& stream, const Event& left);
  /// The elements of a bucket whose means this rank has after a step.
  detail::BlockSquares::Range owned(const Bucket& bucket) const;
  void adopt(BucketPlan plan);
  void plan_from_observed_steps();
  void order_as_seen();
  bool open_step(Exchange exchange, bool has_batch);
  void watch_for_slow_ranks();
  void expect_known(ParamId id, const char* call) const;
  void expect_shape(ParamId id, ConstView gradient);
  void expect_unmarked(ParamId id, const Stream& stream);
  bool can_reduce_in_place(ParamId id) const;
  void mark(ParamId id, const Stream& stream);
  void mark_unused(ParamId id, const Stream& stream);
  void launch_closed_buckets(const Stream& stream);
  void launch(std::size_t bucket, const Stream& stream);
  void reduce(std::size_t bucket, const Stream& stream, const Stream& lane);
  /// Lets `stream` wait for a bucket, and takes the time.
  void wait_for(std::size_t bucket, Event reduced, Stream& stream);
  /// `at`, of this step, gets the time of this place in `stream`.
  void note(const Stream& stream, detail::StepClock::Clock::time_point& at);
  void join_side_operations(Stream& stream);
  void handle_unmarked(const Stream& stream);
  void count_account(const StepHistory& history);
  void account_now_and_then();
  void count_step();
  /// @param sent bytes
  void count_bucket(const Bucket& bucket, std::uint64_t sent);
  [[noreturn]] void refuse(const char* call, const std::string& problem, const std::string& advice);
  void expect_finished(const char* call);

  detail::UsedByOne users_;
  Communicator comm_;
  ReducerOptions options_;
  const ParamLayout layout_;
  detail::ParameterClaim claim_;
  std::shared_ptr<detail::Wire> wire_;
  bool is_planned_;  // whether buckets are planned from the first steps
  std::unique_ptr<BucketPlan> plan_;
  // Kept after a change of plan: consumers may still hold its buckets.
  std::unique_ptr<BucketPlan> first_plan_;
  std::optional<BackwardProfile> profile_;
  std::optional<std::vector<ParamId>> seen_;  // BucketsAsSeen: marked in the first exchanged step, in turn
  std::shared_ptr<CommHook> hook_;
  ReducedListener listener_;
  std::optional<detail::WarmUp> warm_up_;
  Buffer memory_;        // all gradients, or the bucket ring
  GradientSpace space_;  // the same for every plan: work of compute streams may ask for places at any time
  std::shared_ptr<detail::ReadyTracker> ready_;
  std::shared_ptr<detail::ReadyNote> note_;  // for the flight record
  detail::StepClock clock_;
  std::optional<detail::cuda::DeviceClock> device_clock_;  // of the communicator's device
  std::optional<Stream> compute_;                          // of the last step, on a device
  std::unique_ptr<detail::ObservedSteps> observed_;        // null once buckets are planned
  detail::UsedParameters used_;
  detail::MicroBatchShares shares_;
  // Null unless the options ask for them.
  std::unique_ptr<detail::DeterministicTree> tree_;
  std::unique_ptr<detail::UnevenInputs> uneven_;
  std::unique_ptr<detail::BadValueCounter> bad_values_;
  std::unique_ptr<detail::BlockSquares> squares_;
  std::unique_ptr<detail::RingGradients> ring_;

  std::vector<Event> reduced_;                      // by bucket
  std::vector<View> in_place_;                      // by bucket: its gradient in other memory, in this step
  std::shared_ptr<detail::StepClock::Step> times_;  // of this micro-step
  std::shared_ptr<detail::Counters> counters_;
  detail::Growth exposed_;                            // seconds
  detail::Counters::Clock::time_point step_began_{};  // with its first micro-step
  int micro_steps_ = 0;                               // whose gradients are in the arena
  std::size_t next_bucket_ = 0;                       // the first that has not been launched
  bool open_ = false;
  bool bad_values_left_ = false;  // before finish_step: share_bad_values()
  Exchange exchange_ = Exchange::now;
};

}  // namespace weft
