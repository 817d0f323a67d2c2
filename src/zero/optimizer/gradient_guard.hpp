#pragma once
// Clipping, loss scaling and the test for NaN: what a step needs the norm of all gradients for.
//
// A step: add() every part of the means; finish() sums the norm over ranks and says by which factor to
// multiply the gradients, or that some are NaN or infinite. Then nothing may change, and say_why_skipped()
// names rank and parameter.

#include <optional>
#include <string>

#include "collectives/diagnosis/counters.hpp"
#include "weft/zero/gradient_scaler.hpp"
#include "zero/optimizer/gradient_norm.hpp"

namespace weft::detail {

/// @throws Error (usage) for options that are out of range or exclude each other
void check(const zero::GradientScalerOptions& options);

/// "clips to 1 and does not scale, refuses NaN", to the last digit.
std::string described(const zero::GradientScalerOptions& options);

class GradientGuard {
 public:
  struct Place {
    Communicator comm;                          ///< the ranks that reduce
    bool everywhere = true;                     ///< whether each of them has all means
    std::optional<Communicator> whole_model{};  ///< ranks with the other parts of the model
    bool has_replicas = false;                  ///< whether ranks beyond `comm` also reduce
  };
  /// Lets the reducer count bad values, if a step is to look at them.
  GradientGuard(GradientReducer& reducer, Place place, const zero::GradientScalerOptions& options);

  /// Whether a step needs the norm.
  bool is_on() const { return norm_.has_value(); }
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1; }
  /// Null without loss scaling.
  zero::LossScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  /// Adds values that begin on a cache line, as they are when `compute` gets here.
  void add(ConstView means, const Stream& compute) { norm_->add(means, compute); }

  struct Verdict {
    bool bad = false;
    double norm = 0;    ///< unscaled, before clipping
    double factor = 1;  ///< clips and takes the loss scale away
  };
  /// Collective; blocks.
  Verdict finish(const Stream& compute);
  /// After a bad verdict. @throws Error (usage) with NonFinite::refuse, and at the smallest loss scale
  void say_why_skipped();

 private:
  std::string why() const;

  GradientReducer& reducer_;
  Place place_;
  std::optional<double> clip_norm_;
  std::optional<zero::NonFinite> non_finite_;
  std::optional<zero::LossScaler> scaler_;
  std::optional<GradientNorm> norm_;
  std::shared_ptr<Counters> counters_;
  std::uint64_t steps_ = 0;  // including skipped steps
};

}  // namespace weft::detail
