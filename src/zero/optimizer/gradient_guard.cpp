#include "zero/optimizer/gradient_guard.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

std::optional<zero::NonFinite> non_finite_of(const zero::GradientScalerOptions& options) {
  if (options.non_finite) return options.non_finite;
  if (options.loss_scale) return zero::NonFinite::skip_step;
  if (options.clip_norm) return zero::NonFinite::refuse;
  return std::nullopt;
}

}  // namespace

void check(const zero::GradientScalerOptions& options) {
  if (options.clip_norm && !(*options.clip_norm > 0 && std::isfinite(*options.clip_norm)))
    throw Error(ErrorKind::usage, text("clip_norm is ", *options.clip_norm), "it is finite and above 0");
  if (options.loss_scale && options.non_finite == zero::NonFinite::refuse)
    throw Error(ErrorKind::usage, "NonFinite::refuse with loss scaling",
                "a scale is found by steps that overflow: leave non_finite out, or do not scale");
}

std::string described(const zero::GradientScalerOptions& options) {
  std::ostringstream result;
  result << std::setprecision(std::numeric_limits<double>::max_digits10);
  if (options.clip_norm) {
    result << "clips to " << *options.clip_norm;
  } else {
    result << "does not clip";
  }
  if (options.loss_scale) {
    const zero::LossScalerOptions& scale = *options.loss_scale;
    result << " and scales from " << scale.initial << ", at least " << scale.minimum << ", twice that after "
           << scale.growth_interval << " steps, half of it after " << scale.hysteresis << " overflows";
  } else {
    result << " and does not scale";
  }
  const auto non_finite = non_finite_of(options);
  if (!non_finite) {
    result << ", does not look for NaN";
  } else {
    result << (*non_finite == zero::NonFinite::refuse ? ", refuses NaN" : ", skips steps with NaN");
  }
  return result.str();
}

GradientGuard::GradientGuard(GradientReducer& reducer, Place place,
                             const zero::GradientScalerOptions& options)
    : reducer_(reducer),
      place_(std::move(place)),
      clip_norm_(options.clip_norm),
      non_finite_(non_finite_of(options)),
      counters_(shared_counters(place_.comm)) {
  if (options.loss_scale) scaler_.emplace(*options.loss_scale);
  if (scaler_) counters_->loss_scale = loss_scale();
  if (!non_finite_) return;
  reducer_.count_bad_values();
  norm_.emplace(place_.comm, place_.everywhere, place_.whole_model);
}

GradientGuard::Verdict GradientGuard::finish(const Stream& compute) {
  ++steps_;
  const auto [bad, squares] = norm_->finish(compute);
  if (bad) {
    counters_->skipped_steps.add();
    return {.bad = true};
  }
  const double scale = loss_scale();
  if (scaler_) scaler_->update(false);
  if (scaler_) counters_->loss_scale = loss_scale();
  const double norm = std::sqrt(squares) / scale;
  counters_->gradient_norm = norm;
  // The formula of torch.nn.utils.clip_grad_norm_.
  const double clip = clip_norm_ ? std::max(1.0, (norm + 1e-6) / *clip_norm_) : 1;
  return {.norm = norm, .factor = 1 / (clip * scale)};
}

std::string GradientGuard::why() const {
  const auto& found = reducer_.bad_values();
  if (found.empty() && (place_.whole_model || place_.has_replicas))
    return "gradients of another part of the model, or of ranks with replicas, are NaN or infinite";
  if (found.empty())
    return text("no rank has NaN or infinite gradients, but their mean is beyond the range of ",
                reducer_.layout().dtype());
  const BadValues& first = found.front();
  const std::string more =
      found.size() > 1 ? text("; ", found.size() - 1, " other ranks also have some") : std::string();
  return text("rank ", first.rank, " has ", first.nans, " NaN and ", first.infinities,
              " infinite values in its gradients, first in ", reducer_.layout().name(first.first), more);
}

// The step changed nothing, so the next one may follow.
void GradientGuard::say_why_skipped() {
  const std::string reason = why();
  const ErrorContext here{place_.comm.rank(), "step", steps_};
  if (non_finite_ == zero::NonFinite::refuse)
    throw Error(
        ErrorKind::usage, reason,
        "nothing was changed: lower the learning rate, look at this batch, or set NonFinite::skip_step",
        here);
  if (place_.comm.rank() == 0)
    log::warn(text("step ", steps_, " is skipped: ", reason,
                   scaler_ ? text("; the loss scale was ", loss_scale()) : std::string()));
  if (!scaler_) return;
  try {
    scaler_->update(true);
    counters_->loss_scale = loss_scale();
  } catch (const Error& error) {
    throw Error(error.kind(), text(error.problem(), ": ", reason), error.advice(), here);
  }
}

}  // namespace weft::detail
