#pragma once
// What stands behind a GradientReducer: what it is made of (gradient_reducer.cpp) and a step
// (reducer_step.cpp).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gradient/bad_value_watch.hpp"
#include "gradient/block_squares.hpp"
#include "gradient/fixed_parts.hpp"
#include "gradient/observed_steps.hpp"
#include "gradient/ready_note.hpp"
#include "gradient/rest_of_ranks.hpp"
#include "gradient/used_parameters.hpp"
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
  View gradients() { return arena_.view().slice(0, layout().size()); }
  View gradient(ParamId id) { return layout().view(arena_.view(), id); }
  View means(const Bucket& bucket);

  void begin_step(Exchange exchange) { open_step(exchange, true); }
  bool accumulating() const { return micro_steps_ > 1 && !parts_; }
  void mark_ready(ParamId id, const Stream& stream);
  void mark_ready(ParamId id, ConstView gradient, const Stream& stream);
  void poll();
  void finish_step(Stream stream, const BucketConsumer& consume);
  void join(Stream stream, const std::function<void()>& each);

  bool used(ParamId id) { return used_.anywhere(id); }
  const std::vector<BadValues>& bad_values();
  ConstView squares() const;
  double exposed_seconds() const { return wire_->lost_seconds(); }
  StepHistory account();

 private:
  BucketPlan divisible(BucketPlan plan) const;
  BucketPlan first_plan() const;
  /// Elements of the flat space that this rank has means of.
  detail::BlockSquares::Range landing(const Bucket& bucket) const;
  void adopt(BucketPlan plan);
  void plan_from_what_was_seen();
  bool open_step(Exchange exchange, bool has_batch);
  void watch_for_slow_ranks();
  void expect_known(ParamId id) const;
  void expect_unmarked(ParamId id, const Stream& stream);
  void mark(ParamId id, const Stream& stream);
  void mark_unused(ParamId id, const Stream& stream);
  void launch_closed_buckets(const Stream& stream);
  void launch(std::size_t bucket, const Stream& stream);
  void reduce(std::size_t bucket, const Stream& stream, const Stream& lane);
  void wait_for(Stream& stream, std::size_t bucket, Event reduced);
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
  Buffer arena_;
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

  std::vector<Event> reduced_;  // by bucket
  int micro_steps_ = 0;         // of the gradients in the arena
  std::size_t next_bucket_ = 0;
  bool open_ = false;
  Exchange exchange_ = Exchange::now;
};

}  // namespace weft
