// The options of a ShardedOptimizer: what is allowed, and what ranks compare before the first step.

#include <algorithm>
#include <type_traits>

#include "gradient/plan/plan_agreement.hpp"
#include "zero/optimizer/sharded_optimizer_state.hpp"

namespace weft::detail {
namespace {

constexpr const char* operation = "ShardedOptimizer";

std::string described(const zero::Optimizer& optimizer) {
  return std::visit(
      [](const auto& rule) {
        using Rule = std::remove_cvref_t<decltype(rule)>;
        const std::string common = text(" of learning rate ", digits(rule.learning_rate), ", weight decay ",
                                        digits(rule.weight_decay));
        if constexpr (std::is_same_v<Rule, zero::Sgd>) {
          return text("SGD", common, ", momentum ", digits(rule.momentum));
        } else if constexpr (std::is_same_v<Rule, zero::Lars>) {
          return text("LARS", common, ", momentum ", digits(rule.momentum), ", trust coefficient ",
                      digits(rule.trust_coefficient));
        } else if constexpr (std::is_same_v<Rule, zero::Muon>) {
          return text("Muon", common, ", momentum ", digits(rule.momentum), ", ", rule.ns_steps, " steps of ",
                      rule.bf16_products ? "bf16" : "f32",
                      rule.adjust_lr == zero::MuonRate::original ? ", original rates" : ", rates as AdamW's",
                      "; for other parameters ", described(zero::Optimizer(rule.others)));
        } else {
          const bool is_lamb = std::is_same_v<Rule, zero::Lamb>;
          return text(is_lamb                             ? "LAMB"
                      : std::is_same_v<Rule, zero::AdamW> ? "AdamW"
                                                          : "Adam",
                      common, ", betas ", digits(rule.beta1), " and ", digits(rule.beta2), ", epsilon ",
                      digits(rule.epsilon));
        }
      },
      optimizer);
}

}  // namespace

void agree_on_options(Communicator all, const zero::Optimizer& optimizer,
                      const zero::ShardedOptimizerOptions& options) {
  const bool split = options.master == zero::Master::split;
  agree_on(all,
           text(described(optimizer), ", ", described(scaling_of(options)), split ? ", split masters" : ""),
           {"ranks have different optimizers", "give the same rule and options on every rank", operation});
  agree_on(
      all,
      options.groups ? lines_of(*options.groups) : std::vector<std::string>{"one group of all parameters"},
      {"ranks have different parameter groups", "make the same groups on every rank", operation, "option"});
}

void agree_on_whole_model(Communicator whole_model, const Communicator& part,
                          const zero::ShardedOptimizerOptions& options) {
  agree_on(
      whole_model, text("is rank ", part.rank(), " of ", part.size(), " of its part"),
      {"whole_model is not one rank of each part",
       "make it of the ranks that have the other parts, each with the same rank among those that share its "
       "part",
       operation});
  agree_on(whole_model, described(scaling_of(options)),
           {"parts of a model have different options", "clip and scale alike in all parts", operation});
}

// A hole ends where the next parameter begins: the gap between them is zeros.
CountedRanges::CountedRanges(const ParamLayout& layout, const std::vector<ParamId>& counted_elsewhere) {
  for (const ParamId id : counted_elsewhere) {
    const int number = static_cast<int>(id);
    const bool is_last = number + 1 == layout.parameters();
    holes_.push_back({layout.offset(id), is_last ? layout.size() : layout.offset(ParamId{number + 1})});
  }
  std::ranges::sort(holes_, {}, &Range::begin);
}

}  // namespace weft::detail
