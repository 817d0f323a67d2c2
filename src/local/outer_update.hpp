#pragma once
// The rules of outer optimizers over one parameter, in the order of a stream, on the host or a device with the same bits: every
// product and sum is rounded once. All views have one data type and count. Nothing is allocated: what is to be overwritten anyway
// serves as scratch.

#include <string>

#include "weft/core/stream.hpp"
#include "weft/local/local_steps.hpp"

namespace weft::detail {

/// to = outer - now
void difference(View to, ConstView outer, ConstView now, const Stream& stream);

/// One parameter's values of an outer step.
struct OuterValues {
  View outer;     ///< parameters of the last outer step; afterwards of this one
  View momentum;  ///< empty for OuterAverage
  View mean;      ///< of the differences; afterwards anything
  View now;       ///< the trainer's; afterwards mixing * now + (1 - mixing) * outer
  double mixing = 0;
  View scratch{};  ///< as many values, where mixing is not 0
};
void update(const OuterOptimizer& rule, const OuterValues& values, const Stream& stream);

/// "nesterov": the kind, which a checkpoint must have alike.
std::string kind_of(const OuterOptimizer& rule);
/// "nesterov with rate 0.7 and momentum 0.9"
std::string described(const OuterOptimizer& rule);
/// @throws Error (usage) for a rate or momentum out of range
void check(const OuterOptimizer& rule);

}  // namespace weft::detail
