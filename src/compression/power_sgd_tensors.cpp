#include "compression/power_sgd_tensors.hpp"

#include <algorithm>
#include <span>

#include "compression/orthonormal.hpp"
#include "core/fnv.hpp"

namespace weft::detail {
namespace {

/// Tensors begin on lines of their own.
std::int64_t up_to_lines(std::int64_t elements) {
  constexpr std::int64_t line = Buffer::alignment / sizeof(std::int16_t);
  return (elements + line - 1) / line * line;
}

}  // namespace

MatrixShape matrix_shape(const ParamLayout& layout, ParamId id) {
  const std::int64_t rows = layout.shape(id).front();
  return {rows, layout.count(id) / rows};
}

PowerSgdTensors::PowerSgdTensors(const ParamLayout& layout, const PowerSgdOptions& options, Device device)
    : options_(options) {
  if (layout.dtype() != DataType::f32)
    throw Error(ErrorKind::usage, text("PowerSGD of ", layout.dtype(), " gradients"),
                "set ReducerOptions::reduce_dtype to f32");
  std::int64_t bases = 0;
  std::int64_t elements = 0;
  std::int64_t scales = 0;
  for (int i = 0; i < layout.parameters(); ++i) {
    const ParamId id{i};
    const MatrixShape shape = matrix_shape(layout, id);
    if (!is_compressed(shape)) continue;
    const std::uint64_t seed =
        Fnv().add(layout.name(id)).add(static_cast<std::int64_t>(options.seed)).value();
    tensors_.push_back({id, layout.offset(id), shape, options.rank, seed, bases, elements, scales});
    bases += up_to_lines(options.rank * std::max(shape.rows, shape.columns));
    elements += up_to_lines(shape.elements());
    scales += up_to_lines(shape.rows * blocks_of(shape.columns));
  }
  if (tensors_.empty()) expect_any(layout);
  for (int place = 0; place < 2; ++place) {
    bases_[place] = Buffer::on(device, DataType::f32, bases);
    if (options.residual == ResidualKind::none) continue;
    const bool stepped = options.residual == ResidualKind::sixteen_bits;
    // Bytes: no data type of ours is a 16-bit integer.
    const auto size = static_cast<std::int64_t>(stepped ? sizeof(std::int16_t) : sizeof(float));
    residuals_[place] = Buffer::on(device, DataType::u8, elements * size);
    if (stepped) scales_[place] = Buffer::on(device, DataType::f32, scales);
  }
  draw_bases(0, 0);
}

bool PowerSgdTensors::is_compressed(const MatrixShape& shape) const {
  return options_.rank <= std::min(shape.rows, shape.columns) &&
         static_cast<double>(shape.factor_elements(options_.rank)) * options_.min_rate <
             static_cast<double>(shape.elements());
}

void PowerSgdTensors::expect_any(const ParamLayout& layout) const {
  ParamId largest{0};
  const auto narrow = [&](ParamId id) {
    const MatrixShape shape = matrix_shape(layout, id);
    return std::min(shape.rows, shape.columns);
  };
  for (int i = 1; i < layout.parameters(); ++i) {
    if (narrow(ParamId{i}) > narrow(largest)) largest = ParamId{i};
  }
  const auto [rows, columns] = matrix_shape(layout, largest);
  throw Error(ErrorKind::usage,
              text("PowerSGD of rank ", options_.rank, " makes no parameter smaller by ", options_.min_rate,
                   ": the widest matrix, ", layout.name(largest), ", is ", rows, " x ", columns),
              "use a smaller rank or min_rate; a model without matrices needs another hook");
}

const PowerSgdTensors::Tensor* PowerSgdTensors::find(ParamId id) const {
  const auto tensor = std::ranges::lower_bound(tensors_, id, {}, &Tensor::id);
  return tensor != tensors_.end() && tensor->id == id ? &*tensor : nullptr;
}

float* PowerSgdTensors::basis(const Tensor& tensor, int place) {
  return static_cast<float*>(bases_[place].view().data()) + tensor.basis_at;
}

Residual PowerSgdTensors::residual(const Tensor& tensor, int place) {
  std::byte* const values = residuals_[place].view().bytes();
  if (options_.residual == ResidualKind::none) return {};
  if (options_.residual == ResidualKind::floats)
    return {values + static_cast<std::size_t>(tensor.residual_at) * sizeof(float)};
  return {values + static_cast<std::size_t>(tensor.residual_at) * sizeof(std::int16_t),
          static_cast<float*>(scales_[place].view().data()) + tensor.scales_at};
}

void PowerSgdTensors::draw_bases(int place, std::int64_t step) {
  for (const Tensor& tensor : tensors_) {
    const auto columns = static_cast<std::size_t>(tensor.shape.columns);
    const auto rank = static_cast<std::size_t>(tensor.rank);
    const std::span<float> all(basis(tensor, place), rank * columns);
    for (std::size_t k = 0; k < rank; ++k)
      draw(all.subspan(k * columns, columns), vector_seed(seed(tensor, step), static_cast<int>(k)));
    orthonormalize(all, tensor.rank);
  }
}

std::uint64_t PowerSgdTensors::seed(const Tensor& tensor, std::int64_t step) {
  return Fnv().add(static_cast<std::int64_t>(tensor.seed)).add(step).value();
}

std::vector<float> PowerSgdTensors::read_basis(const Tensor& tensor, int place, Side side) {
  const float* begin = basis(tensor, place);
  return {begin, begin + tensor.rank * (side == Side::left ? tensor.shape.rows : tensor.shape.columns)};
}

void PowerSgdTensors::write_basis(const Tensor& tensor, int place, const std::vector<float>& values) {
  std::ranges::copy(values, basis(tensor, place));
}

std::vector<float> PowerSgdTensors::read_residual(const Tensor& tensor, int place) {
  const Residual kept = residual(tensor, place);
  std::vector<float> values(kept.values == nullptr ? 0 : static_cast<std::size_t>(tensor.shape.elements()));
  if (values.empty()) return values;
  // What is kept and nothing else: the product with nothing, of zeros and it.
  std::vector<float> sums(values.size());
  const Matrix matrix{tensor.shape.rows, tensor.shape.columns, sums.data(), kept, {values.data()}};
  keep_residual(matrix, {});
  return values;
}

void PowerSgdTensors::write_residual(const Tensor& tensor, int place, const std::vector<float>& values) {
  std::vector<float> gradient = values;
  gradient.resize(static_cast<std::size_t>(tensor.shape.elements()));  // none was kept: nothing is
  const Matrix matrix{tensor.shape.rows, tensor.shape.columns, gradient.data(), {}, residual(tensor, place)};
  keep_residual(matrix, {});
}

}  // namespace weft::detail
