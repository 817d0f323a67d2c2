#pragma once
// Finds rules for the list scheduler: a few that are known to be good first, then changes of the best.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "pipeline/search/list_scheduler.hpp"
#include "weft/pipeline/certificate.hpp"

namespace weft::pipeline::detail {

class RuleSearch {
 public:
  /// @param bound no schedule is shorter: reaching it ends the search
  RuleSearch(const Problem& problem, const std::vector<int>& device_of, Objective objective,
             Nanoseconds bound);

  /// Tries rules that are known, the best first. @return whether the bound is reached
  bool try_known(std::int64_t effort);
  /// Where hops are short and devices have one stage: all go in step. @return whether the bound is reached
  bool try_in_step();
  /// By span, where devices have one stage: all are idle as little as they can before their first input
  /// gradient, and hardly after. @return whether the bound is reached
  bool try_warm_ups(std::int64_t effort);
  /// Changes rules of some devices, and keeps what is no worse. @param effort actions it may place
  bool improve(std::int64_t effort);

  bool found() const { return length() < never; }
  /// The length of the best, by the objective.
  Nanoseconds length() const { return std::min(shortest().length, in_step_.length); }
  std::int64_t placed() const { return placed_; }
  Schedule best();

 private:
  static constexpr Nanoseconds never = INT64_MAX / 4;

  struct Best {
    std::vector<Rules> rules{};
    Nanoseconds length = never;
  };

  bool one_stage_each() const { return scheduler_.device_of().size() == need_.size(); }
  bool done() const { return length() <= bound_; }
  void offer(const std::vector<Rules>& rules, Best& best);
  std::vector<Rules> uniform(double fill, int forward, int weight, bool keep_weights, bool later_first) const;
  std::vector<Rules> in_step(int behind) const;
  std::vector<int> warm_ups(Nanoseconds span) const;
  std::vector<int> shortest_warm_ups() const;
  const Best& shortest() const { return walked_.length < best_.length ? walked_ : best_; }
  void change(std::vector<Rules>& rules, std::size_t kinds, std::mt19937_64& random);

  Objective objective_;
  Nanoseconds bound_;
  ListScheduler scheduler_;
  int microbatches_;
  std::int64_t actions_;
  Costs costs_;               // of stages
  std::vector<double> need_;  // microbatches in flight at each device that hide the way to the end and back
  std::vector<int> room_;     // and that its memory holds
  bool short_hops_ = false;
  std::vector<int> last_;  // weight gradients that fit between a device's last input gradient and the end
  Best best_;              // of the known, and of those that followed by length
  Best walked_;            // by span: of warm-ups, and of those that followed by excess
  Best least_excess_;      // of both: spans above the bound, which is its length, are the least in sum
  Best in_step_;           // whose other rules count for nothing
  std::int64_t placed_ = 0;
  std::mt19937_64 random_{1}, random_walk_{2};
};

}  // namespace weft::pipeline::detail
