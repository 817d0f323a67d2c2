#include "zero/optimizer/gradient_norm.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/memory/elementwise.hpp"
#include "weft/core/copy.hpp"
#include "zero/update/update_cuda.hpp"

namespace weft::detail {
namespace {

template <class T>
constexpr std::int64_t line = static_cast<std::int64_t>(Buffer::alignment / sizeof(T));

/// Halves are added, as the device's kernel does (zero/update/squares.cu).
template <class T, std::size_t Count>
double square_sum(const T* values) {
  std::array<double, Count> squares;
  for (std::size_t i = 0; i < Count; ++i) {
    const auto value = static_cast<double>(static_cast<float>(values[i]));
    squares[i] = value * value;
  }
  for (std::size_t half = Count / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) squares[i] += squares[i + half];
  }
  return squares[0];
}

template <class T>
void add_squares(const T* values, std::int64_t count, ExactSum& sum) {
  constexpr auto whole = static_cast<std::size_t>(line<T>);
  std::int64_t i = 0;
  for (; i + line<T> <= count; i += line<T>) sum.add(square_sum<T, whole>(values + i));
  if (i == count) return;
  std::array<T, whole> rest{};
  std::copy(values + i, values + count, rest.begin());
  sum.add(square_sum<T, whole>(rest.data()));
}

void check_dtype(DataType dtype) {
  if (is_floating(dtype) && dtype != DataType::f64) return;
  throw Error(ErrorKind::usage, text("the norm of gradients of ", dtype),
              "clipping and loss scaling are of f32, f16 and bf16");
}

}  // namespace

void add_squares(ConstView data, ExactSum& sum) {
  check_dtype(data.dtype());
  dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) <= 4 && !std::is_integral_v<T>)
      add_squares(static_cast<const T*>(data.data()), data.count(), sum);
  });
}

GradientNorm::GradientNorm(Communicator comm, bool everywhere, std::optional<Communicator> whole_model)
    : comm_(std::move(comm)),
      everywhere_(everywhere),
      whole_model_(std::move(whole_model)),
      places_(ExactSum::places_count + 1) {}

void GradientNorm::add(ConstView gradients, const Stream& compute) {
  Stream stream = compute;
  if (gradients.device().is_host())
    return stream.run([gradients, sum = sum_] { add_squares(gradients, *sum); });
  check_dtype(gradients.dtype());
  if (on_device_.count() == 0)
    on_device_ = Buffer::on(gradients.device(), DataType::i64, ExactSum::places_count + 1);
  if (!waiting_.empty() && waiting_.front().dtype() != gradients.dtype()) add_waiting(stream);
  waiting_.push_back(gradients);
}

// Together: a launch for each bucket would take as long as reading it.
void GradientNorm::add_waiting(Stream compute) {
  if (waiting_.empty()) return;
  compute.run([sum = on_device_.view(), all = std::exchange(waiting_, {}), place = cuda::place_of(compute),
               kernels = cuda::update_kernels()] { kernels->add_squares(sum, all, place); });
}

void GradientNorm::take_from_device(Stream compute) {
  if (on_device_.count() == 0) return;
  add_waiting(compute);
  copy(View(std::span(places_)), on_device_.view(), compute);
  fill(on_device_.view(), 0, compute);
}

GradientNorm::Result GradientNorm::finish(Stream compute) {
  const auto places = std::span(places_).first<ExactSum::places_count + 1>();
  take_from_device(compute);
  compute.synchronize();
  if (on_device_.count() > 0) sum_->add(ExactSum::from(places));
  sum_->put(places);
  *sum_ = {};
  Stream stream;
  const View sums{std::span(places_)};
  if (!everywhere_) comm_.all_reduce(sums, ReduceOp::sum, stream).wait();
  if (whole_model_) whole_model_->all_reduce(sums, ReduceOp::sum, stream).wait();
  const ExactSum all = ExactSum::from(places);
  return {.bad = all.bad(), .squares = all.value()};
}

}  // namespace weft::detail
