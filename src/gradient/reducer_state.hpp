#pragma once
// What stands behind a GradientReducer: what it is made of (gradient_reducer.cpp), its buckets
// (reducer_plans.cpp), a step (reducer_step.cpp), and gradients in windows (reducer_windows.cpp).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gradient/bad_value_watch.hpp"
#include "gradient/block_squares.hpp"
#include "gradient/fixed_parts.hpp"
#include "gradient/in_windows.hpp"
#include "gradient/observed_steps.hpp"
#include "gradient/ready_note.hpp"
#include "gradient/rest_of_ranks.hpp"
#include "gradient/used_parameters.hpp"
#include "gradient/warm_up.hpp"
#include "gradient/wire.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft {

class GradientReducer::State {
 public:
  State(Communicator comm, const ParamLayout& layout, ReducerOptions options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const ParamLayout& layout() const { return layout_; }
  const BucketPlan& plan() const { return *plan_; }
  const std::optional<BackwardProfile>& profile() const { return profile_; }
  View gradients();
  View gradient(ParamId id);
  View gradient(ParamId id, Stream stream);
  View means(const Bucket& bucket);

  void begin_step(Exchange exchange) { open_step(exchange, true); }
  bool accumulating() const { return micro_steps_ > 1 && !parts_ && !windows_; }
  void mark_ready(ParamId id, const Stream& stream);
  void mark_ready(ParamId id, ConstView gradient, const Stream& stream);
  void poll();
  void finish_step(Stream stream, const BucketConsumer& consume);
  void on_reduced(ReducedListener listener) {
    listener_ = std::move(listener);
    warm_up_.emplace();
  }
  void join(Stream stream, const std::function<void()>& each);

  bool used(ParamId id) { return used_.anywhere(id); }
  const std::vector<BadValues>& bad_values();
  ConstView squares() const;
  double exposed_seconds() const { return wire_->lost_seconds(); }
  std::int64_t held_bytes() const;
  std::int64_t host_bytes() const;
  StepHistory account();

 private:
  std::int64_t part_unit() const;
  BucketPlan divisible(BucketPlan plan) const;
  BucketPlan first_plan(const ParamLayout& layout);
  void expect_given_plan(const BucketPlan& plan, const ParamLayout& layout) const;
  void expect_windows_fit() const;
  void make_windows(const BucketPlan& plan);
  View place(ParamId id) const { return space_.slice(layout().offset(id), layout().count(id)); }
  void admit(ParamId id, Stream stream);
  void expect_left(std::size_t bucket, ParamId id);
  void wait_for_place(Stream& stream, const Event& left);
  /// Elements of the flat space that this rank has means of.
  detail::BlockSquares::Range landing(const Bucket& bucket) const;
  void adopt(BucketPlan plan);
  void plan_from_what_was_seen();
  bool open_step(Exchange exchange, bool has_batch);
  void watch_for_slow_ranks();
  void expect_known(ParamId id, const char* call) const;
  void expect_unmarked(ParamId id, const Stream& stream);
  void mark(ParamId id, const Stream& stream);
  void mark_unused(ParamId id, const Stream& stream);
  void launch_closed_buckets(const Stream& stream);
  void launch(std::size_t bucket, const Stream& stream);
  void reduce(std::size_t bucket, const Stream& stream, const Stream& lane);
  /// @param waited where `stream` is the host's, called with when that began and ended
  template <class Waited>
  void wait_for(Stream& stream, Event reduced, Waited waited) {
    if (stream.device().is_host()) {
      stream.submit(std::make_unique<detail::Join<Waited>>(std::move(reduced), wire_, std::move(waited)));
      return;
    }
    wire_->on_device().start(stream);
    stream.wait(std::move(reduced));
    wire_->on_device().stop(stream);
  }
  void join_asides(Stream& stream);
  void settle_unmarked(const Stream& stream);
  [[noreturn]] void refuse(const char* call, const std::string& problem, const std::string& advice);
  void expect_finished(const char* call);

  Communicator comm_;
  ReducerOptions options_;
  const ParamLayout layout_;
  std::shared_ptr<detail::Wire> wire_;
  bool is_planned_;  // from what the first steps show
  std::unique_ptr<BucketPlan> plan_;
  std::unique_ptr<BucketPlan> first_plan_;  // consumers may still hold its buckets
  std::optional<BackwardProfile> profile_;
  std::shared_ptr<CommHook> hook_;
  ReducedListener listener_;
  std::optional<detail::WarmUp> warm_up_;  // while steps may differ from those to come
  Buffer memory_;                          // of all gradients, or of windows
  GradientSpace space_;  // whatever the plan: work of compute streams may ask for places at any time
  std::shared_ptr<detail::ReadyTracker> ready_;
  std::shared_ptr<detail::ReadyNote> note_;  // of the flight record
  detail::StepClock clock_;
  std::unique_ptr<detail::ObservedSteps> observed_;  // until there is a plan
  detail::UsedParameters used_;
  // Null where the options ask for none.
  std::unique_ptr<detail::FixedParts> parts_;
  std::unique_ptr<detail::RestOfRanks> rest_;
  std::unique_ptr<detail::BadValueWatch> bad_values_;
  std::unique_ptr<detail::BlockSquares> squares_;
  std::unique_ptr<detail::InWindows> windows_;

  std::vector<Event> reduced_;                      // by bucket
  std::shared_ptr<detail::StepClock::Step> times_;  // of this micro-step
  int micro_steps_ = 0;                             // of the gradients in the arena
  std::size_t next_bucket_ = 0;
  bool open_ = false;
  Exchange exchange_ = Exchange::now;
};

}  // namespace weft
