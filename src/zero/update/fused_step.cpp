#include "zero/update/fused_step.hpp"

#include <array>
#include <cmath>

#include "weft/core/error.hpp"
#include "zero/update/update_cuda.hpp"
#include "zero/update/update_kernel.hpp"

namespace weft::detail {
namespace {

bool is_gradient_type(DataType dtype) {
  return dtype == DataType::f32 || dtype == DataType::bf16 || dtype == DataType::f16;
}

template <class Problem>
[[noreturn]] void refuse(const Problem& problem, const char* advice) {
  throw Error(ErrorKind::usage, problem, advice);
}

/// Checks an array's length and type; the type of an array that must be empty is not checked.
void need(const ConstView& view, const char* name, std::int64_t count, DataType dtype,
          const StepSlice& slice) {
  const bool fits = view.count() == count &&
                    (count == 0 || (view.dtype() == dtype && view.device() == slice.gradient.device()));
  if (fits) return;
  refuse(text("an update of ", slice.gradient.count(), " elements on ", slice.gradient.device(), " whose ",
              name, " are ", view.count(), " ", view.dtype(), " on ", view.device()),
         "all arrays have one length and device; moments are f32, and empty where the rule keeps none; low "
         "halves are bf16");
}

Form form_of(const StepSlice& slice) {
  const DataType dtype = slice.parameters.dtype();
  if (slice.kept == Master::none && dtype == DataType::f32) return Form::f32;
  if (slice.kept == Master::f32 && dtype == DataType::bf16) return Form::bf16;
  if (slice.kept == Master::f32 && dtype == DataType::f16) return Form::f16;
  if (slice.kept == Master::split && dtype == DataType::bf16) return Form::split;
  const std::array names{"no master", "an f32 master", "a split master"};
  refuse(text("parameters of type ", dtype, " with ", names[static_cast<std::size_t>(slice.kept)]),
         "f32 has no master, bf16 and f16 have an f32 one, or bf16 a split one");
}

void check(const StepSlice& slice, const StepFactors& factors) {
  if (!is_gradient_type(slice.gradient.dtype()))
    refuse(text("an update by gradients of type ", slice.gradient.dtype()), "gradients are f32, bf16 or f16");
  const Form form = form_of(slice);
  const std::int64_t count = slice.gradient.count();
  need(slice.parameters, "parameters", count, slice.parameters.dtype(), slice);
  need(slice.master, "masters", form == Form::f32 ? 0 : count,
       form == Form::split ? DataType::bf16 : DataType::f32, slice);
  need(slice.first, "first moments", factors.moments() > 0 ? count : 0, DataType::f32, slice);
  need(slice.second, "second moments", factors.moments() > 1 ? count : 0, DataType::f32, slice);
}

StepArrays arrays_of(const StepSlice& slice) {
  return {.gradient = slice.gradient.data(),
          .parameters = slice.parameters.data(),
          .master = slice.master.data(),
          .first = static_cast<float*>(slice.first.data()),
          .second = static_cast<float*>(slice.second.data()),
          .count = slice.gradient.count(),
          .gradient_type = slice.gradient.dtype(),
          .form = form_of(slice)};
}

/// The values of an array of a wide step; null if the step does not use it.
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

void fused_step(const StepSlice& slice, const StepFactors& factors, Stream stream) {
  if (slice.parameters.dtype() == DataType::f64)
    return stream.run([slice, factors] { wide_step(slice, factors); });
  check(slice, factors);
  if (slice.gradient.device() != stream.device())
    refuse(text("an update of memory on ", slice.gradient.device(), " on a stream of ", stream.device()),
           "use a stream of the memory's device");
  if (stream.device().is_host()) {
    stream.run([arrays = arrays_of(slice), factors] { update(arrays, factors); });
  } else {
    stream.run([arrays = arrays_of(slice), factors, place = cuda::place_of(stream),
                kernels = cuda::update_kernels()] { kernels->update(arrays, factors, place); });
  }
}

void on_host::fused_step(const StepSlice& slice, const StepFactors& factors) {
  check(slice, factors);
  if (!slice.gradient.device().is_host())
    refuse(text("an update on the host of memory on ", slice.gradient.device()), "give the device's stream");
  update(arrays_of(slice), factors);
}

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
