#pragma once
// The implementation of ShardedOptimizer: its options (optimizer_options.cpp), where its state lies
// (optimizer_placement.cpp), how it is saved (optimizer_saving.cpp), and the step (sharded_optimizer.cpp).

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "gradient/reducer/parameter_claim.hpp"
#include "weft/zero/sharded_optimizer.hpp"
#include "zero/offload/offloaded_state.hpp"
#include "zero/offload/share_finder.hpp"
#include "zero/offload/state_layout.hpp"
#include "zero/optimizer/gradient_guard.hpp"
#include "zero/params/params_state.hpp"
#include "zero/tensors/optimizer_groups.hpp"
#include "zero/tensors/whole_tensors.hpp"

namespace weft::detail {

inline zero::GradientScalerOptions scaling_of(const zero::ShardedOptimizerOptions& options) {
  return {.clip_norm = options.clip_norm, .loss_scale = options.loss_scale, .non_finite = options.non_finite};
}

/// Checks that all ranks update alike. Otherwise their parameters would differ from the first step on.
/// Collective. @throws Error (mismatch)
void agree_on_options(Communicator all, const zero::Optimizer& optimizer,
                      const zero::ShardedOptimizerOptions& options);

/// Checks that all parts clip and scale alike; otherwise they would train with different scales, or wait for
/// a sum that other parts do not take. Collective over `whole_model`.
/// @throws Error (mismatch) if options differ, or the ranks do not have the same rank in their parts
void agree_on_whole_model(Communicator whole_model, const Communicator& part,
                          const zero::ShardedOptimizerOptions& options);

/// The flat space without the parameters that another part counts.
class CountedRanges {
 public:
  CountedRanges() = default;
  /// @param counted_elsewhere parameters of the layout
  CountedRanges(const ParamLayout& layout, const std::vector<ParamId>& counted_elsewhere);

  /// Calls each(from, to) for the ranges of [begin, end) that count, in ascending order. They begin on cache
  /// lines where `begin` does.
  template <class Each>
  void visit(std::int64_t begin, std::int64_t end, Each&& each) const {
    for (const Range& hole : holes_) {
      if (hole.end <= begin) continue;
      if (hole.begin >= end) break;
      if (hole.begin > begin) each(begin, hole.begin);
      begin = hole.end;
    }
    if (begin < end) each(begin, end);
  }

 private:
  struct Range {
    std::int64_t begin, end;
  };
  std::vector<Range> holes_;  // ascending, whole cache lines
};

}  // namespace weft::detail

namespace weft::zero {

class ShardedOptimizer::State {
 public:
  State(ShardedParams& params, const Optimizer& optimizer, ShardedOptimizerOptions options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Held during a public call: neither this object nor its ShardedParams may be called by a second thread meanwhile.
  detail::OneThread::Turn turn(const char* call) { return params_.turn(call); }
  void begin_step(double learning_rate);
  void set_rate_factor(std::string_view group, double factor);
  void offload(double share, std::optional<double> file_share);
  StepResult step(const Stream& compute, std::optional<double> learning_rate);
  void take_parameters(const Stream& compute);
  checkpoint::State state(const Stream& compute);
  void load_state(const checkpoint::Values& values, const checkpoint::Reader& read, const Stream& compute);
  double loss_scale() const { return guard_->loss_scale(); }
  std::int64_t steps() const { return steps_; }
  std::int64_t state_bytes() const { return arrays_.bytes() + (tensors_ ? tensors_->bytes() : 0); }
  std::int64_t host_bytes() const { return offloaded_ ? offloaded_->host_bytes() : 0; }
  std::int64_t file_bytes() const { return offloaded_ ? offloaded_->file_bytes() : 0; }

 private:
  using Factors = std::shared_ptr<const detail::GroupedFactors>;
  /// A bucket that is averaged when `reduced` is done.
  struct ReducedBucket {
    Event reduced{};
    bool is_updated = false;  ///< whether its offloaded part is
  };

  /// Elements of one tensor that lie in one place.
  struct Range {
    ParamId id{};            // among the trained
    std::int64_t first = 0;  // in the tensor
    View parameters{};
    detail::StateSplit::Piece piece{};
  };
  /// @param own of what several ranks have alike, this rank's share alone
  template <class Visit>
  void each_range(bool own, Visit&& visit);
  int moments_of(ParamId id) const;
  /// Visits its masters and moments, from its element `at` on, wherever they lie.
  std::function<void(std::int64_t at, std::int64_t count, bool changes,
                     const detail::OffloadedState::Visitor& visitor)>
  visitor_of(const detail::StateSplit::Piece& piece);
  void expect_between_steps(const char* operation) const;
  /// Parameters or state are about to change: a save behind the training has them first.
  void before_change();
  void settle(const Stream& compute, const char* operation);
  checkpoint::Values saved_values();
  void load_values(const checkpoint::Values& values);
  std::vector<checkpoint::Wanted> wanted();

  void place();
  void listen();
  static void expect_shares(double share, double file_share);
  void load();
  detail::StateSplit split_by(double share, double file_share) const;
  detail::StateArrays arrays_of(const detail::StateSplit& split) const;
  std::unique_ptr<detail::OffloadedState> offloaded_of(const detail::StateSplit& split) const;
  void on_reduced(const Bucket& bucket, const Event& reduced);
  double rate_of_step(std::optional<double> learning_rate) const;
  void update_on_host(const Bucket& bucket, const Factors& factors, const Event& reduced);
  void update(const Bucket& bucket, const Factors& factors, const Stream& compute);
  void expect_not_offloaded(bool offloads) const;
  detail::WholeTensors::Part whole_part(const Bucket& bucket);
  void first_pass(const Bucket& bucket, const detail::GroupedFactors& factors, const Stream& compute);
  void second_pass(const Stream& compute);
  StepResult step_at_once(const Stream& compute, double learning_rate);
  StepResult step_by_norm(const Stream& compute, double learning_rate);

  ShardedParams::State& params_;
  detail::ParameterClaim claim_;
  Optimizer optimizer_;
  ShardedOptimizerOptions options_;
  std::optional<detail::OptimizerGroups> groups_;  // always, once options are checked
  std::unique_ptr<detail::WholeTensors> tensors_;  // null if the rule is element-wise
  detail::StateKind kind_;
  std::optional<detail::GradientGuard> guard_;  // always, once options are checked
  detail::CountedRanges counted_;
  std::int64_t steps_ = 0;
  std::optional<double> begun_{};  // the rate given to begin_step
  Factors begun_factors_{};        // of that rate
  /// This step's buckets, by their begin.
  std::map<std::int64_t, ReducedBucket, std::less<>,
           RecycledAllocator<std::pair<const std::int64_t, ReducedBucket>>>
      reduced_buckets_;
  Event free_{};                                 // compute has finished reading the old parameters
  std::optional<detail::ShareFinder> finder_{};  // until the share is found
  std::vector<std::int64_t> bounds_;             // of the state's cells
  detail::StateSplit split_;
  detail::StateArrays arrays_;                                   // on the device
  std::unique_ptr<detail::OffloadedState> offloaded_;            // null if nothing is
  std::vector<std::shared_ptr<std::function<void()>>> readers_;  // what state() gave, since the last change
};

}  // namespace weft::zero
