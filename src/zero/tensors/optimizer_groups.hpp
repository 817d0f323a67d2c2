#pragma once
// The groups of a ShardedOptimizer: the rule of each, its rate factor, and which elements it has.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/zero/optimizer.hpp"
#include "weft/zero/param_groups.hpp"
#include "zero/plan/trained_params.hpp"
#include "zero/update/grouped_step.hpp"

namespace weft::detail {

class OptimizerGroups {
 public:
  /// @param groups nullopt: one group of all, which has no name
  /// @param trained the layout of the trained parameters in use
  /// @throws Error (usage) for groups of another model, for a parameter that `params` trains and a group
  /// freezes or the other way round, and for options that the rule has not
  OptimizerGroups(const zero::Optimizer& optimizer, const std::optional<zero::ParamGroups>& groups,
                  const TrainedParams& params, const ParamLayout& trained);

  /// The factors of a step by its learning rate. @param gradient_scale as for factors()
  std::shared_ptr<const GroupedFactors> factors(std::int64_t step, double learning_rate,
                                                double gradient_scale) const;
  /// A trained tensor's rule, the rate factor of its group, and whether the rule takes it as a whole.
  struct Tensor {
    const zero::Optimizer& rule;
    double rate_factor;
    bool is_whole;
  };
  Tensor tensor(int number) const {
    const std::size_t group = group_numbers_[static_cast<std::size_t>(number)];
    return {rules_[group], rate_factors_[group], whole_[static_cast<std::size_t>(number)]};
  }
  /// The rule that keeps the most moments: state is made for it.
  const zero::Optimizer& rule_of_state() const { return rules_[most_moments_]; }
  /// @throws Error (usage) for a name of no group or a frozen one's, and a factor that is negative or not
  /// finite
  void set_rate_factor(std::string_view name, double factor);
  /// By name, without frozen groups; none if there are no groups.
  std::map<std::string, double> rate_factors() const;

 private:
  std::vector<std::string> names_;  // all vectors are by group
  std::vector<zero::Optimizer> rules_;
  std::vector<double> rate_factors_;
  std::vector<bool> frozen_;
  std::size_t most_moments_ = 0;
  std::vector<std::size_t> group_numbers_;  // by number of the trained, as below
  std::vector<bool> whole_;
  std::shared_ptr<const GroupRuns> runs_;
};

}  // namespace weft::detail
