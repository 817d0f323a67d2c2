#include "zero/fused_step.hpp"

#include <array>

#include "weft/core/error.hpp"
#include "weft/interop/cuda.hpp"
#include "zero/cuda/update_kernels.hpp"
#include "zero/update_kernel.hpp"
#include "zero/wide_step.hpp"

namespace weft::detail {
namespace {

bool is_gradient_type(DataType dtype) {
  return dtype == DataType::f32 || dtype == DataType::bf16 || dtype == DataType::f16;
}

template <class Problem>
[[noreturn]] void refuse(const Problem& problem, const char* advice) {
  throw Error(ErrorKind::usage, problem, advice);
}

/// How long an array must be, and of which type; nothing is said of the type of what must be empty.
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
    stream.run([arrays = arrays_of(slice), factors, device = stream.device().index(),
                native = native_handle(stream),
                kernels = cuda::update_kernels()] { kernels->update(arrays, factors, device, native); });
  }
}

void on_host::fused_step(const StepSlice& slice, const StepFactors& factors) {
  check(slice, factors);
  if (!slice.gradient.device().is_host())
    refuse(text("an update on the host of memory on ", slice.gradient.device()), "give the device's stream");
  update(arrays_of(slice), factors);
}

}  // namespace weft::detail
