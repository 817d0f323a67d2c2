// Checks groups, describes them, and turns them into runs of the flat space and rules.

#include "weft/zero/param_groups.hpp"

#include <cmath>
#include <iomanip>
#include <sstream>
#include <type_traits>
#include <unordered_set>

#include "core/base/fnv.hpp"
#include "weft/core/error.hpp"
#include "zero/plan/group_runs.hpp"
#include "zero/plan/step_factors.hpp"

namespace weft::zero {
namespace {

[[noreturn]] void refuse(const std::string& problem, const std::string& advice) {
  throw Error(ErrorKind::usage, problem, advice);
}

struct Given {
  const char* name;
  std::optional<double> value;
};

/// The options that replace the optimizer's.
std::vector<Given> options_of(const ParamGroup& group) {
  return {{"weight decay", group.weight_decay},
          {"beta1", group.beta1},
          {"beta2", group.beta2},
          {"epsilon", group.epsilon}};
}

void check_options(const ParamGroup& group) {
  bool has_options =
      group.rate_factor != 1 || group.layer_adaptation.has_value() || group.use_muon.has_value();
  for (const Given& option : options_of(group)) has_options = has_options || option.value.has_value();
  if (group.frozen && has_options)
    refuse(text("group ", group.name, " is frozen and has options of an update"),
           "leave out its rate factor, weight decay, betas, epsilon, layer adaptation and Muon, or do not "
           "freeze it");
  detail::expect_rate_factor(group.name, group.rate_factor);
  try {
    ParamGroup values = group;  // AdamW has them all
    values.layer_adaptation = values.use_muon = std::nullopt;
    detail::check(detail::rule_of(AdamW{}, values));
  } catch (const Error& error) {
    throw Error(error.kind(), text("group ", group.name, ": ", error.problem()), error.advice());
  }
}

void check_names(const std::vector<ParamGroup>& groups) {
  std::unordered_set<std::string> names;
  for (const ParamGroup& group : groups) {
    if (group.name.empty() || group.name.find('\n') != std::string::npos)
      refuse(text("a group is named \"", group.name.substr(0, group.name.find('\n')), '"'),
             "give every group a name of one line");
    if (!names.insert(group.name).second)
      refuse(text("two groups are named ", group.name), "give every group a name of its own");
  }
}

void check_all_in_groups(const ParamLayout& layout, const std::vector<int>& group_numbers) {
  for (int i = 0; i < layout.parameters(); ++i) {
    if (group_numbers[static_cast<std::size_t>(i)] < 0)
      refuse(text("parameter ", i, ", ", layout.name(ParamId{i}), ", is in no group"),
             "every parameter is in one group: add it to one");
  }
}

std::string described(const std::optional<double>& value) {
  return value ? detail::digits(*value) : "the optimizer's";
}

std::string described(const std::optional<bool>& which) {
  return !which ? "of matrices" : *which ? "of all" : "of none";
}

}  // namespace

ParamGroups::ParamGroups(ParamLayout layout, std::vector<ParamGroup> groups)
    : layout_(std::move(layout)), groups_(std::move(groups)) {
  check_names(groups_);
  numbers_.assign(static_cast<std::size_t>(layout_.parameters()), -1);
  bool trains = false;
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    const ParamGroup& group = groups_[number];
    check_options(group);
    for (const ParamId id : group.params) {
      if (index(id) >= numbers_.size())
        refuse(text("group ", group.name, " has parameter ", static_cast<int>(id)),
               text("parameters are 0 to ", layout_.parameters() - 1));
      int& of = numbers_[index(id)];
      if (of >= 0)
        refuse(text("parameter ", index(id), ", ", layout_.name(id), ", is in group ",
                    groups_[static_cast<std::size_t>(of)].name, " and in group ", group.name),
               "every parameter is in one group, once");
      of = static_cast<int>(number);
      trains = trains || !group.frozen;
    }
  }
  check_all_in_groups(layout_, numbers_);
  if (!trains) refuse("all parameters are frozen", "there is nothing to train: leave one group unfrozen");
}

std::vector<ParamId> ParamGroups::frozen() const {
  std::vector<ParamId> result;
  for (int i = 0; i < layout_.parameters(); ++i) {
    if (groups_[static_cast<std::size_t>(group_number(ParamId{i}))].frozen) result.push_back(ParamId{i});
  }
  return result;
}

std::uint64_t ParamGroups::hash() const {
  detail::Fnv hash;
  for (const std::string& line : detail::lines_of(*this)) hash.add(line);
  return hash.value();
}

std::ostream& operator<<(std::ostream& out, const ParamGroups& groups) {
  for (const ParamGroup& group : groups.groups_) {
    std::int64_t elements = 0;
    for (const ParamId id : group.params) elements += groups.layout_.count(id);
    out << "group " << group.name << ": " << group.params.size() << " parameters, " << elements
        << " elements, ";
    if (group.frozen) {
      out << "frozen\n";
      continue;
    }
    out << "rate factor " << detail::digits(group.rate_factor);
    for (const Given& option : options_of(group))
      out << ", " << option.name << ' ' << described(option.value);
    if (group.layer_adaptation) out << ", layer adaptation " << described(group.layer_adaptation);
    if (group.use_muon) out << ", Muon " << described(group.use_muon);
    out << '\n';
  }
  return out;
}

ParamGroups decay_matrices(const ParamLayout& layout) {
  ParamGroup matrices{.name = "matrices"};
  ParamGroup vectors{.name = "vectors", .weight_decay = 0.0};
  for (int i = 0; i < layout.parameters(); ++i) {
    const ParamId id{i};
    (layout.shape(id).size() >= 2 ? matrices : vectors).params.push_back(id);
  }
  return ParamGroups(layout, {std::move(matrices), std::move(vectors)});
}

}  // namespace weft::zero

namespace weft::detail {

GroupRuns::GroupRuns(const ParamLayout& layout, const std::vector<int>& group_numbers) {
  for (int i = 0; i < layout.parameters(); ++i) {
    const int group = group_numbers[static_cast<std::size_t>(i)];
    if (!runs_.empty() && runs_.back().group != group) runs_.back().end = layout.offset(ParamId{i});
    if (runs_.empty() || runs_.back().group != group) runs_.push_back({0, group});
  }
  runs_.back().end = std::numeric_limits<std::int64_t>::max();
}

namespace {

[[noreturn]] void refuse_option(const zero::ParamGroup& group, const char* option, const char* rule) {
  zero::refuse(text("group ", group.name, " has ", option, ", and ", rule, " has none"),
               "leave it out, or give a rule that has it");
}

template <class Rule>
void set_momentum(Rule& rule, const zero::ParamGroup& group, const char* name) {
  if (group.beta2) refuse_option(group, "beta2", name);
  if (group.epsilon) refuse_option(group, "epsilon", name);
  rule.momentum = group.beta1.value_or(rule.momentum);
}

template <class Adaptive>
void set_betas(Adaptive& rule, const zero::ParamGroup& group) {
  rule.beta1 = group.beta1.value_or(rule.beta1);
  rule.beta2 = group.beta2.value_or(rule.beta2);
  rule.epsilon = group.epsilon.value_or(rule.epsilon);
}

}  // namespace

zero::Optimizer rule_of(const zero::Optimizer& optimizer, const zero::ParamGroup& group) {
  return std::visit(
      [&](auto rule) -> zero::Optimizer {
        using Rule = decltype(rule);
        constexpr bool is_lars = std::is_same_v<Rule, zero::Lars>;
        constexpr bool is_muon = std::is_same_v<Rule, zero::Muon>;
        if (group.layer_adaptation && !is_lars && !std::is_same_v<Rule, zero::Lamb>)
          refuse_option(group, "layer_adaptation", "a rule other than Lamb and Lars");
        if (group.use_muon && !is_muon) refuse_option(group, "use_muon", "a rule other than Muon");
        rule.weight_decay = group.weight_decay.value_or(rule.weight_decay);
        if constexpr (is_muon) {
          rule.others.weight_decay = group.weight_decay.value_or(rule.others.weight_decay);
          if (group.use_muon.value_or(false)) {
            set_momentum(rule, group, "Muon");
          } else {
            set_betas(rule.others, group);
          }
        } else if constexpr (is_lars || std::is_same_v<Rule, zero::Sgd>) {
          set_momentum(rule, group, is_lars ? "LARS" : "SGD");
        } else {
          set_betas(rule, group);
        }
        return rule;
      },
      optimizer);
}

void expect_rate_factor(const std::string& group, double factor) {
  if (!(factor >= 0 && std::isfinite(factor)))
    zero::refuse(text("the rate factor of group ", group, " is ", factor), "it is finite and 0 or more");
}

std::vector<std::string> lines_of(const zero::ParamGroups& groups) {
  std::vector<std::string> lines;
  for (std::size_t number = 0; number < groups.groups().size(); ++number) {
    const zero::ParamGroup& group = groups.groups()[number];
    lines.push_back(text("the name ", group.name, " of group ", number));
    if (group.frozen) lines.push_back(text("frozen for group ", group.name));
    lines.push_back(text("rate factor ", digits(group.rate_factor), " of group ", group.name));
    for (const auto& option : zero::options_of(group))
      lines.push_back(text(option.name, ' ', zero::described(option.value), " of group ", group.name));
    lines.push_back(
        text("layer adaptation ", zero::described(group.layer_adaptation), " of group ", group.name));
    lines.push_back(text("Muon ", zero::described(group.use_muon), " of group ", group.name));
  }
  const ParamLayout& layout = groups.layout();
  for (int i = 0; i < layout.parameters(); ++i) {
    const auto group = static_cast<std::size_t>(groups.group_number(ParamId{i}));
    lines.push_back(
        text("the place of ", layout.name(ParamId{i}), " in group ", groups.groups()[group].name));
  }
  return lines;
}

std::string digits(double value) {
  std::ostringstream out;
  out << std::setprecision(std::numeric_limits<double>::max_digits10) << value;
  return out.str();
}

}  // namespace weft::detail
