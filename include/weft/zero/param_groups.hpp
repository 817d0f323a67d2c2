#pragma once
// Groups of parameters with optimizer options of their own: a rate factor, weight decay, betas, epsilon, layer
// adaptation, Muon; or frozen.
//
// A plain value that a pure function makes from the layout. It can be printed and hashed; all ranks compare
// it before the first step. Every parameter is in exactly one group. A group may be empty, as "vectors" is in
// a part of a model that has matrices only.
//
//   const zero::ParamGroups groups(layout, {
//       {.name = "embedding", .params = {ParamId{0}}, .frozen = true},
//       {.name = "body", .params = body, .weight_decay = 0.1},
//       {.name = "head", .params = {ParamId{9}}, .rate_factor = 10, .beta2 = 0.99}});
//   zero::ShardedParams params(comm, layout, {.stage = 2, .frozen = groups.frozen()});
//   zero::ShardedOptimizer adam(params, rule, {.groups = groups});
//   adam.set_rate_factor("head", 5);                // between steps: from the next step on
//
// What a group leaves out is the optimizer's own. The rate of a group in a step is the step's learning rate
// times its rate factor. A group's options do not change a bit of the other groups' parameters, but through
// the norm, if gradients are clipped by it.
//
// A frozen parameter has no gradient, no optimizer state and no part in the norm, and no byte of it travels.
// Every rank keeps it whole, also in stage 3. ShardedParams needs to know the frozen ones: pass it frozen().
//
// Price: a rank's shard is updated range by range, where neighbours of one group are one range: a call of the
// update's loop for each, or a launch on a device. One group of all costs what no groups cost.
//
// WRONG: a rate factor of 0 to freeze parameters. They keep their value (AdamW's decay is scaled, too), but
// have gradients and state all the same.

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "weft/gradient/param_layout.hpp"

namespace weft::zero {

struct ParamGroup {
  std::string name{};  ///< for messages and set_rate_factor(); not empty, and of no other group
  std::vector<ParamId> params{};
  double rate_factor = 1;                ///< finite, 0 or more
  std::optional<double> weight_decay{};  ///< finite, 0 or more
  std::optional<double> beta1{};    ///< in [0, 1); the momentum of Sgd and Lars, and of Muon with use_muon
  std::optional<double> beta2{};    ///< in [0, 1); not for Sgd and Lars, nor with use_muon
  std::optional<double> epsilon{};  ///< in [1e-18, 1]; not for Sgd and Lars, nor with use_muon
  /// Whether Lamb and Lars multiply a tensor's rate by its trust ratio; nullopt: tensors of two dimensions or
  /// more, so not biases and gains of norms. Only for those rules.
  std::optional<bool> layer_adaptation{};
  /// Whether Muon orthogonalizes the updates of these parameters, which have two dimensions or more, or AdamW
  /// updates them; nullopt: hidden matrices, as Muon says. Only for Muon.
  std::optional<bool> use_muon{};
  bool frozen = false;  ///< then without the options above
};

class ParamGroups {
 public:
  /// @throws Error (usage) naming group, option and value where one is out of range, a frozen group has
  /// options, or two have one name; naming the parameter that is in two groups, in none, or unknown; and
  /// where all are frozen
  ParamGroups(ParamLayout layout, std::vector<ParamGroup> groups);

  const std::vector<ParamGroup>& groups() const { return groups_; }
  /// The layout whose parameters are in groups.
  const ParamLayout& layout() const { return layout_; }
  /// The number of a parameter's group.
  int group_number(ParamId id) const {
    (void)layout_.count(id);  // which refuses a number that is no parameter's
    return numbers_[index(id)];
  }
  /// The frozen parameters, ascending: ShardedOptions::frozen.
  std::vector<ParamId> frozen() const;
  /// Over parameters and options. The same on every rank and in every run.
  std::uint64_t hash() const;

  /// A line per group: name, parameters, elements, options.
  friend std::ostream& operator<<(std::ostream& out, const ParamGroups& groups);

 private:
  ParamLayout layout_;
  std::vector<ParamGroup> groups_;
  std::vector<int> numbers_;  // by parameter
};

/// As is usual for transformers: "matrices", of two dimensions or more, decay as the optimizer says, and
/// "vectors" (biases, gains of norms) do not decay.
ParamGroups decay_matrices(const ParamLayout& layout);

}  // namespace weft::zero
