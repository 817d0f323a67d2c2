#pragma once
// Which elements of the flat space are updated by the options of which group: a plain value.
//
// A parameter's run ends where the next parameter begins: the gap between them is zeros, which no rule
// changes. Neighbours of one group are one run, so that without groups there is one run of everything.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "weft/zero/optimizer.hpp"
#include "weft/zero/param_groups.hpp"

namespace weft::detail {

class GroupRuns {
 public:
  /// One group of everything.
  GroupRuns() : runs_{{std::numeric_limits<std::int64_t>::max(), 0}} {}
  /// @param group_numbers by parameter of the layout
  GroupRuns(const ParamLayout& layout, const std::vector<int>& group_numbers);

  /// Calls each(from, to, group) for the ranges that make up [begin, end), in ascending order.
  template <class Each>
  void visit(std::int64_t begin, std::int64_t end, Each&& each) const {
    auto run = std::ranges::upper_bound(runs_, begin, {}, &Run::end);
    for (; begin < end; ++run) {
      const std::int64_t to = std::min(end, run->end);
      each(begin, to, static_cast<std::size_t>(run->group));
      begin = to;
    }
  }

 private:
  struct Run {
    std::int64_t end;
    int group;
  };
  std::vector<Run> runs_;  // ascending; the last one is endless
};

/// The optimizer with the options that a group gives. @throws Error (usage) if its rule has no such option
zero::Optimizer rule_of(const zero::Optimizer& optimizer, const zero::ParamGroup& group);

/// @throws Error (usage) naming the group unless the factor is finite and 0 or more
void expect_rate_factor(const std::string& group, double factor);

/// A line for each option and each parameter, to compare and to hash; numbers to the last bit.
std::vector<std::string> lines_of(const zero::ParamGroups& groups);

/// To the last bit: options that differ in one digit train different models.
std::string digits(double value);

}  // namespace weft::detail
