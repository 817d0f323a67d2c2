#include "zero/wide_step.hpp"

#include <cmath>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

double* values(const View& view, const StepSlice& slice, bool wanted) {
  const bool fits = wanted ? view.count() == slice.parameters.count() && view.dtype() == DataType::f64 &&
                                 view.device().is_host()
                           : view.empty();
  if (fits) return static_cast<double*>(view.data());
  throw Error(ErrorKind::usage,
              text("a step of ", slice.parameters.count(), " f64 with an array of ", view.count(), " ",
                   view.dtype(), " on ", view.device()),
              "gradients, parameters and moments are all f64, in host memory, and have no master");
}

}  // namespace

void wide_step(const StepSlice& slice, const StepFactors& by) {
  const View gradient(const_cast<void*>(slice.gradient.data()), slice.gradient.count(),
                      slice.gradient.dtype(), slice.gradient.device());
  const double* g = values(gradient, slice, true);
  double* p = values(slice.parameters, slice, true);
  double* m = values(slice.first, slice, by.moments() > 0);
  double* v = values(slice.second, slice, by.moments() > 1);
  (void)values(slice.master, slice, false);
  for (std::int64_t i = 0; i < slice.parameters.count(); ++i) {
    double fresh = g[i] * by.gradient_scale + p[i] * by.pull;
    if (by.moments() == 2) {
      m[i] = by.beta1 * m[i] + by.fresh1 * fresh;
      v[i] = by.beta2 * v[i] + by.fresh2 * fresh * fresh;
      fresh = m[i] / (std::sqrt(v[i]) + by.epsilon);
    } else if (by.moments() == 1) {
      fresh = m[i] = by.beta1 * m[i] + fresh;
    }
    p[i] = p[i] * by.keep - by.rate * fresh;
  }
}

}  // namespace weft::detail
