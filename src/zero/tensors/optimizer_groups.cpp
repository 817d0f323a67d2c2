#include "zero/tensors/optimizer_groups.hpp"

#include <algorithm>

#include "weft/core/error.hpp"
#include "zero/tensors/matrix_owners.hpp"

namespace weft::detail {
namespace {

void expect_fit(const zero::ParamGroups& groups, const TrainedParams& params) {
  const ParamLayout& model = params.model();
  if (!groups.layout().has_parameters_of(model))
    throw Error(ErrorKind::usage,
                text("groups of ", groups.layout().parameters(), " parameters of ", groups.layout().dtype(),
                     ", which are not those of ShardedParams"),
                "make the groups and ShardedParams from one layout");
  for (int i = 0; i < model.parameters(); ++i) {
    const ParamId id{i};
    const zero::ParamGroup& group = groups.groups()[static_cast<std::size_t>(groups.group_number(id))];
    if (group.frozen == params.is_frozen(id)) continue;
    throw Error(
        ErrorKind::usage,
        text(model.name(id), " is in group ", group.name, ", which is ",
             group.frozen ? "frozen, and ShardedParams trains it" : "trained, and ShardedParams froze it"),
        "set ShardedOptions::frozen to ParamGroups::frozen()");
  }
}

/// By number of the trained.
std::vector<int> numbers_of_trained(const zero::ParamGroups& groups, const TrainedParams& params) {
  std::vector<int> result;
  for (int i = 0; i < params.model().parameters(); ++i) {
    if (!params.is_frozen(ParamId{i})) result.push_back(groups.group_number(ParamId{i}));
  }
  return result;
}

/// Whether the rule takes this tensor as a whole.
bool is_whole(const zero::Optimizer& rule, const zero::ParamGroup& group, const ParamLayout& layout,
              ParamId id) {
  if (!needs_whole_tensors(rule)) return false;
  const bool has_rows = layout.shape(id).size() >= 2;
  if (!std::holds_alternative<zero::Muon>(rule)) return group.layer_adaptation.value_or(has_rows);
  if (group.use_muon.value_or(false) && !has_rows)
    throw Error(ErrorKind::usage,
                text("group ", group.name, " has use_muon and ", layout.name(id), ", which is a vector"),
                "Muon multiplies matrices: put vectors into another group, and give matrices their shapes");
  return group.use_muon.value_or(is_hidden_matrix(layout, id));
}

int moments_of(const zero::Optimizer& rule) {
  return factors(rule, 1, 0, 1).moments();
}

}  // namespace

OptimizerGroups::OptimizerGroups(const zero::Optimizer& optimizer,
                                 const std::optional<zero::ParamGroups>& groups, const TrainedParams& params,
                                 const ParamLayout& trained) {
  const auto count = static_cast<std::size_t>(trained.parameters());
  const auto find_whole = [&](const auto& group_with) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t group = group_numbers_[i];
      whole_.push_back(is_whole(rules_[group], group_with(group), trained, ParamId{static_cast<int>(i)}));
    }
  };
  if (!groups) {
    rules_ = {optimizer};
    rate_factors_ = {1};
    runs_ = std::make_shared<GroupRuns>();
    group_numbers_.assign(count, 0);
    const zero::ParamGroup all;
    find_whole([&](std::size_t) -> const zero::ParamGroup& { return all; });
    return;
  }
  expect_fit(*groups, params);
  int most = -1;
  for (const zero::ParamGroup& group : groups->groups()) {
    names_.push_back(group.name);
    rules_.push_back(rule_of(optimizer, group));
    rate_factors_.push_back(group.rate_factor);
    frozen_.push_back(group.frozen);
    if (group.frozen || group.params.empty() || moments_of(rules_.back()) <= most) continue;
    most = moments_of(rules_.back());
    most_moments_ = rules_.size() - 1;
  }
  const std::vector<int> numbers = numbers_of_trained(*groups, params);
  runs_ = std::make_shared<GroupRuns>(trained, numbers);
  group_numbers_.assign(numbers.begin(), numbers.end());
  find_whole([&](std::size_t group) -> const zero::ParamGroup& { return groups->groups()[group]; });
}

std::shared_ptr<const GroupedFactors> OptimizerGroups::factors(std::int64_t step, double learning_rate,
                                                               double gradient_scale) const {
  auto result = make_recycled<GroupedFactors>();
  result->runs = runs_.get();
  result->by_group.reserve(rules_.size());
  for (std::size_t group = 0; group < rules_.size(); ++group)
    result->by_group.push_back(
        detail::factors(rules_[group], step, learning_rate * rate_factors_[group], gradient_scale));
  return result;
}

void OptimizerGroups::set_rate_factor(std::string_view name, double factor) {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) {
    std::string known;
    for (const std::string& one : names_) known += (known.empty() ? "" : ", ") + one;
    throw Error(ErrorKind::usage, text("a rate factor of group ", name, ", and there is no such group"),
                names_.empty() ? "the optimizer was made without groups" : text("groups are ", known));
  }
  const auto group = static_cast<std::size_t>(found - names_.begin());
  if (frozen_[group])
    throw Error(ErrorKind::usage, text("a rate factor of group ", name, ", which is frozen"),
                "frozen parameters are not updated");
  expect_rate_factor(names_[group], factor);
  rate_factors_[group] = factor;
}

std::map<std::string, double> OptimizerGroups::rate_factors() const {
  std::map<std::string, double> all;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!frozen_[i] && !names_[i].empty()) all.emplace(names_[i], rate_factors_[i]);
  }
  return all;
}

}  // namespace weft::detail
