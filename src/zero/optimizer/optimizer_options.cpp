// The options of a ShardedOptimizer: what is allowed, and what ranks compare before the first step.

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>
#include <type_traits>

#include "gradient/plan/plan_agreement.hpp"
#include "zero/optimizer/sharded_optimizer_state.hpp"

namespace weft::detail {
namespace {

constexpr const char* operation = "ShardedOptimizer";

/// To the last bit: options that differ in one digit train different models.
std::string digits(double value) {
  std::ostringstream out;
  out << std::setprecision(std::numeric_limits<double>::max_digits10) << value;
  return out.str();
}

std::string described(const zero::Optimizer& optimizer) {
  return std::visit(
      [](const auto& rule) {
        using Rule = std::remove_cvref_t<decltype(rule)>;
        const std::string common = text(" of learning rate ", digits(rule.learning_rate), ", weight decay ",
                                        digits(rule.weight_decay));
        if constexpr (std::is_same_v<Rule, zero::Sgd>) {
          return text("SGD", common, ", momentum ", digits(rule.momentum));
        } else {
          return text(std::is_same_v<Rule, zero::AdamW> ? "AdamW" : "Adam", common, ", betas ",
                      digits(rule.beta1), " and ", digits(rule.beta2), ", epsilon ", digits(rule.epsilon));
        }
      },
      optimizer);
}

std::string described(const zero::ShardedOptimizerOptions& options) {
  std::string result = "does not clip";
  if (options.clip_norm) result = text("clips to ", digits(*options.clip_norm));
  if (options.loss_scale) {
    const zero::LossScalerOptions& scale = *options.loss_scale;
    result += text(" and scales from ", scale.initial, ", at least ", scale.minimum, ", twice that after ",
                   scale.growth_interval, " steps, half of it after ", scale.hysteresis, " overflows");
  } else {
    result += " and does not scale";
  }
  const auto non_finite = non_finite_of(options);
  if (!non_finite) return result + ", does not look for NaN";
  return result + (*non_finite == zero::NonFinite::refuse ? ", refuses NaN" : ", skips steps with NaN");
}

}  // namespace

void check(const zero::ShardedOptimizerOptions& options) {
  if (options.clip_norm && !(*options.clip_norm > 0 && std::isfinite(*options.clip_norm)))
    throw Error(ErrorKind::usage, text("clip_norm is ", *options.clip_norm), "it is finite and above 0");
  if (options.loss_scale && options.non_finite == zero::NonFinite::refuse)
    throw Error(ErrorKind::usage, "NonFinite::refuse with loss scaling",
                "a scale is found by steps that overflow: leave non_finite out, or do not scale");
}

std::optional<zero::NonFinite> non_finite_of(const zero::ShardedOptimizerOptions& options) {
  if (options.non_finite) return options.non_finite;
  if (options.loss_scale) return zero::NonFinite::skip_step;
  if (options.clip_norm) return zero::NonFinite::refuse;
  return std::nullopt;
}

void agree_on_options(Communicator all, const zero::Optimizer& optimizer,
                      const zero::ShardedOptimizerOptions& options) {
  const bool split = options.master == zero::Master::split;
  agree_on(all, text(described(optimizer), ", ", described(options), split ? ", split masters" : ""),
           {"ranks have different optimizers", "give the same rule and options on every rank", operation});
}

void agree_on_whole_model(Communicator whole_model, const Communicator& part,
                          const zero::ShardedOptimizerOptions& options) {
  agree_on(
      whole_model, text("is rank ", part.rank(), " of ", part.size(), " of its part"),
      {"whole_model is not one rank of each part",
       "make it of the ranks that have the other parts, each with the same rank among those that share its "
       "part",
       operation});
  agree_on(whole_model, described(options),
           {"parts of a model have different options", "clip and scale alike in all parts", operation});
}

std::string non_finite_gradients(const std::vector<BadValues>& found, const ParamLayout& layout,
                                 bool others) {
  if (found.empty() && others)
    return "gradients of another part of the model, or of ranks with replicas, are NaN or infinite";
  if (found.empty())
    return text("no rank has NaN or infinite gradients, but their mean is beyond the range of ",
                layout.dtype());
  const BadValues& first = found.front();
  const std::string more =
      found.size() > 1 ? text("; ", found.size() - 1, " other ranks have some, too") : std::string();
  return text("rank ", first.rank, " has ", first.nans, " NaN and ", first.infinities,
              " infinite values in its gradients, first in ", layout.name(first.first), more);
}

// A hole ends where the next parameter begins: the gap between them is zeros.
CountedRanges::CountedRanges(const ParamLayout& layout, const std::vector<ParamId>& counted_elsewhere) {
  for (const ParamId id : counted_elsewhere) {
    const int number = static_cast<int>(id);
    if (number < 0 || number >= layout.parameters())
      throw Error(ErrorKind::usage, text("counted_elsewhere has parameter ", number),
                  text("parameters are 0 to ", layout.parameters() - 1));
    const bool is_last = number + 1 == layout.parameters();
    holes_.push_back({layout.offset(id), is_last ? layout.size() : layout.offset(ParamId{number + 1})});
  }
  std::ranges::sort(holes_, {}, &Range::begin);
}

}  // namespace weft::detail
