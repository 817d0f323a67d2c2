// The rules of DeepSpeed's dynamic loss scale. The first `hysteresis` - 1 overflows leave the scale as it is,
// each further one halves it. After `growth_interval` steps without an overflow it doubles, and the count
// begins anew.

#include "weft/zero/loss_scaler.hpp"

#include <algorithm>
#include <cmath>

#include "weft/core/error.hpp"

namespace weft::zero {
namespace {

void expect(bool holds, const char* option, double value, const char* allowed) {
  if (!holds) throw Error(ErrorKind::usage, text("loss scale: ", option, " is ", value), allowed);
}

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), scale_(options.initial), overflows_left_(options.hysteresis) {
  const bool finite = std::isfinite(options.initial) && std::isfinite(options.minimum);
  expect(finite && options.minimum > 0, "minimum", options.minimum, "it is finite and above 0");
  expect(finite && options.initial >= options.minimum, "initial", options.initial,
         "it is finite and at least the minimum");
  expect(options.growth_interval >= 1, "growth_interval", static_cast<double>(options.growth_interval),
         "it is 1 step or more");
  expect(options.hysteresis >= 1, "hysteresis", options.hysteresis, "it is 1 overflow or more");
}

void LossScaler::update(bool overflowed) {
  if (!overflowed) {
    if (++clean_ % options_.growth_interval != 0) return;
    scale_ *= 2;
    overflows_left_ = options_.hysteresis;
    return;
  }
  ++skipped_;
  clean_ = 0;
  if (--overflows_left_ > 0) return;
  overflows_left_ = 1;
  if (scale_ <= options_.minimum) {
    throw Error(ErrorKind::usage, text("gradients overflow at the smallest loss scale, ", scale_),
                "training has diverged, or the model overflows in its 16-bit type: look for NaN in its loss");
  }
  scale_ = std::max(scale_ / 2, options_.minimum);
}

void LossScaler::load_state(const State& state) {
  expect(std::isfinite(state.scale) && state.scale >= options_.minimum, "a scale to go on from", state.scale,
         "it is finite and at least the minimum");
  expect(state.overflows_left >= 1, "overflows left", static_cast<double>(state.overflows_left),
         "they are 1 or more");
  expect(state.clean_steps >= 0 && state.skipped >= 0, "steps to go on from",
         static_cast<double>(std::min(state.clean_steps, state.skipped)), "they are 0 or more");
  scale_ = state.scale;
  overflows_left_ = state.overflows_left;
  clean_ = state.clean_steps;
  skipped_ = state.skipped;
}

}  // namespace weft::zero
