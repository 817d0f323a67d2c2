#pragma once
// Finds rules for the list scheduler: a few that are known to be good first, then changes of the best.

#include <cstdint>
#include <random>
#include <vector>

#include "pipeline/list_scheduler.hpp"
#include "weft/pipeline/certificate.hpp"

namespace weft::pipeline::detail {

class RuleSearch {
 public:
  /// @param bound no schedule is shorter: reaching it ends the search
  RuleSearch(const Problem& problem, const std::vector<int>& device_of, Objective objective,
             Nanoseconds bound);

  /// Tries rules that are known, the best first. @return whether the bound is reached
  bool try_known(std::int64_t effort);
  /// Changes rules of some devices, and keeps what is no worse. @param effort actions it may place
  bool improve(std::int64_t effort);

  bool found() const { return length_ < never; }
  /// Of the best, by the objective.
  Nanoseconds length() const { return length_; }
  std::int64_t placed() const { return placed_; }
  Schedule best();

 private:
  static constexpr Nanoseconds never = INT64_MAX / 4;

  bool offer(const std::vector<Rules>& rules);
  std::vector<Rules> uniform(double fill, int forward, int weight, bool keep_weights, bool later_first) const;
  void change(std::vector<Rules>& rules);

  Objective objective_;
  Nanoseconds bound_;
  ListScheduler scheduler_;
  int microbatches_;
  std::int64_t actions_;
  std::vector<double> need_;  // microbatches in flight at each device that hide the way to the end and back
  std::vector<int> room_;     // and that its memory holds
  std::vector<Rules> best_;
  Nanoseconds length_ = never;
  std::int64_t placed_ = 0;
  std::mt19937_64 random_{1};
};

}  // namespace weft::pipeline::detail
