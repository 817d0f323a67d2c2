#include "weft/zero/gradient_scaler.hpp"

#include "collectives/diagnosis/used_by_one.hpp"
#include "core/memory/elementwise.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "gradient/reducer/parameter_claim.hpp"
#include "zero/optimizer/gradient_guard.hpp"

namespace weft::zero {
namespace {

GradientScalerOptions looking(GradientScalerOptions options) {
  if (!options.non_finite && !options.loss_scale) options.non_finite = NonFinite::refuse;
  return options;
}

}  // namespace

class GradientScaler::State {
 public:
  State(Communicator comm, GradientReducer& reducer, const GradientScalerOptions& options)
      : users_("GradientScaler", comm),
        reducer_(claimed(comm, reducer)),
        guard_(reducer, {.comm = comm, .everywhere = has_all(reducer)}, options) {
    detail::agree_on(comm, detail::described(options),
                     {"ranks have different GradientScalerOptions", "use the same options on every rank",
                      "GradientScaler"});
  }

  StepResult step(const Stream& compute) {
    const auto turn = users_.enter("step");
    for (const Bucket& bucket : reducer_.plan().buckets()) guard_.add(reducer_.means(bucket), compute);
    const auto verdict = guard_.finish(compute);
    if (verdict.bad) {
      guard_.say_why_skipped();
      return {.skipped = true};
    }
    if (verdict.factor != 1) {
      for (const Bucket& bucket : reducer_.plan().buckets())
        detail::scale(reducer_.means(bucket), verdict.factor, compute);
    }
    return {.norm = verdict.norm};
  }
  double loss_scale() const { return guard_.loss_scale(); }

 private:
  /// Two would take the loss scale away twice.
  GradientReducer& claimed(Communicator comm, GradientReducer& reducer) {
    if (!claim_.take({&reducer}, "GradientScaler")) return reducer;
    const Error error(ErrorKind::usage, "the reducer has another GradientScaler, which still lives",
                      "end the other one first", {comm.rank(), "GradientScaler", 0});
    comm.give_up(error);
    throw error;
  }
  /// Whether every rank has all means: a part of a bucket is then all of it.
  static bool has_all(GradientReducer& reducer) {
    const Bucket& first = reducer.plan().buckets().front();
    return reducer.means(first).count() == first.count();
  }

  detail::UsedByOne users_;
  detail::ParameterClaim claim_;
  GradientReducer& reducer_;
  detail::GradientGuard guard_;
};

GradientScaler::GradientScaler(Communicator comm, GradientReducer& reducer, GradientScalerOptions options) {
  detail::check(options);
  state_ = std::make_unique<State>(std::move(comm), reducer, looking(options));
}
GradientScaler::~GradientScaler() = default;
GradientScaler::GradientScaler(GradientScaler&&) noexcept = default;

StepResult GradientScaler::step(const Stream& compute) {
  return state_->step(compute);
}
double GradientScaler::loss_scale() const {
  return state_->loss_scale();
}

}  // namespace weft::zero
