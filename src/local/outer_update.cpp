#include "local/outer_update.hpp"

#include <cmath>

#include "core/memory/elementwise.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

void difference(View to, ConstView outer, ConstView now, const Stream& stream) {
  copy(to, now, stream);
  scale(to, -1, stream);
  add(to, outer, stream);
}

void update(const OuterOptimizer& rule, const OuterValues& values, const Stream& stream) {
  const bool mixes = values.mixing != 0;
  View step = values.mean;
  if (const auto* const nesterov = std::get_if<OuterNesterov>(&rule)) {
    scale(values.momentum, nesterov->momentum, stream);
    add(values.momentum, values.mean, stream);
    step = mixes ? values.scratch : values.now;
    copy(step, values.momentum, stream);
    scale(step, nesterov->momentum, stream);
    add(step, values.mean, stream);
    scale(step, -nesterov->learning_rate, stream);
  } else {
    scale(step, -1, stream);
  }
  add(values.outer, step, stream);
  if (!mixes) {
    copy(values.now, values.outer, stream);
    return;
  }
  copy(values.mean, values.outer, stream);
  scale(values.mean, 1 - values.mixing, stream);
  scale(values.now, values.mixing, stream);
  add(values.now, values.mean, stream);
}

std::string kind_of(const OuterOptimizer& rule) {
  return std::holds_alternative<OuterNesterov>(rule) ? "nesterov" : "average";
}

std::string described(const OuterOptimizer& rule) {
  const auto* const nesterov = std::get_if<OuterNesterov>(&rule);
  if (nesterov == nullptr) return kind_of(rule);
  return text(kind_of(rule), " with rate ", nesterov->learning_rate, " and momentum ", nesterov->momentum);
}

void check(const OuterOptimizer& rule) {
  const auto* const nesterov = std::get_if<OuterNesterov>(&rule);
  if (nesterov == nullptr) return;
  if (!(nesterov->learning_rate > 0) || !std::isfinite(nesterov->learning_rate))
    throw Error(ErrorKind::usage, text("an outer learning rate of ", nesterov->learning_rate),
                "give a finite one above 0: DiLoCo has 0.7");
  if (!(nesterov->momentum >= 0 && nesterov->momentum < 1))
    throw Error(ErrorKind::usage, text("an outer momentum of ", nesterov->momentum),
                "give one from 0 to below 1: DiLoCo has 0.9");
}

}  // namespace weft::detail
