#include "compression/power_sgd/power_sgd_tensors.hpp"

#include <algorithm>
#include <set>
#include <span>

#include "core/base/fnv.hpp"
#include "core/base/round_up.hpp"
#include "core/base/strings.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {
namespace {

// Each tensor begins on a cache line of its own.
constexpr std::int64_t line = Buffer::alignment / sizeof(std::int16_t);

}  // namespace

MatrixShape matrix_shape(const ParamLayout& layout, ParamId id) {
  const std::int64_t rows = layout.shape(id).front();
  return {rows, layout.count(id) / rows};
}

bool is_compressible(const MatrixShape& shape, const PowerSgdOptions& options) {
  return options.rank <= std::min(shape.rows, shape.columns) &&
         static_cast<double>(shape.factor_elements(options.rank)) * options.min_rate <
             static_cast<double>(shape.elements());
}

PowerSgdTensors::PowerSgdTensors(const ParamLayout& layout, const PowerSgdOptions& options, Device device)
    : options_(options), stream_(device) {
  if (layout.dtype() != DataType::f32)
    throw Error(ErrorKind::usage, text("PowerSGD of ", layout.dtype(), " gradients"),
                "pass the hook through cast_hook(DataType::f32, hook)");
  expect_known(options.whole, layout);
  const std::set<std::string_view> whole(options.whole.begin(), options.whole.end());
  std::int64_t bases = 0;
  std::int64_t elements = 0;
  std::int64_t scales = 0;
  for (int i = 0; i < layout.parameters(); ++i) {
    const ParamId id{i};
    const MatrixShape shape = matrix_shape(layout, id);
    if (whole.contains(layout.name(id)) || !is_compressible(shape, options)) continue;
    const std::uint64_t seed =
        Fnv().add(layout.name(id)).add(static_cast<std::int64_t>(options.seed)).value();
    tensors_.push_back({id, layout.offset(id), shape, options.rank, seed, bases, elements, scales});
    bases += round_up(options.rank * std::max(shape.rows, shape.columns), line);
    elements += round_up(shape.elements(), line);
    scales += round_up(shape.rows * blocks_of(shape.columns), line);
  }
  if (tensors_.empty()) expect_any(layout);
  for (int place = 0; place < 2; ++place) {
    bases_[place] = Buffer::on(device, DataType::f32, bases);
    if (options.residual == KeptAs::nothing) continue;
    const bool stepped = options.residual == KeptAs::sixteen_bits;
    // Bytes: no data type of ours is a 16-bit integer.
    const auto size = static_cast<std::int64_t>(stepped ? sizeof(std::int16_t) : sizeof(float));
    residuals_[place] = Buffer::on(device, DataType::u8, elements * size);
    if (stepped) scales_[place] = Buffer::on(device, DataType::f32, scales);
  }
  draw_bases(0, 0, stream_);
  stream_.synchronize();
}

void PowerSgdTensors::expect_known(const std::vector<std::string>& whole, const ParamLayout& layout) const {
  std::set<std::string_view> names;
  for (int i = 0; i < layout.parameters(); ++i) names.insert(layout.name(ParamId{i}));
  for (const std::string& name : whole) {
    if (names.contains(name)) continue;
    const auto near = nearest_name(names, name);
    throw Error(ErrorKind::usage, text("PowerSgdOptions::whole names '", name, "', which the model lacks"),
                near ? text("did you mean ", *near, "?") : "give names of parameters, as ParamSpec has them");
  }
}

void PowerSgdTensors::expect_any(const ParamLayout& layout) const {
  const auto is_one = [&](const std::string& name) {
    for (int i = 0; i < layout.parameters(); ++i) {
      if (layout.name(ParamId{i}) == name) return is_compressible(matrix_shape(layout, ParamId{i}), options_);
    }
    return false;
  };
  if (std::ranges::any_of(options_.whole, is_one))
    throw Error(ErrorKind::usage, "PowerSgdOptions::whole names every matrix that could be compressed",
                "leave one out, or use all_reduce_hook()");
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

View PowerSgdTensors::basis_view(const Tensor& tensor, int place, std::int64_t count) {
  return bases_[place].view().slice(tensor.basis_at, count);
}

View PowerSgdTensors::values_view(const Tensor& tensor, int place) {
  const std::int64_t size = options_.residual == KeptAs::f32 ? sizeof(float) : sizeof(std::int16_t);
  return residuals_[place].view().slice(tensor.residual_at * size, tensor.shape.elements() * size);
}

View PowerSgdTensors::scales_view(const Tensor& tensor, int place) {
  if (options_.residual != KeptAs::sixteen_bits) return {};
  return scales_[place].view().slice(tensor.scales_at, tensor.shape.rows * blocks_of(tensor.shape.columns));
}

float* PowerSgdTensors::basis(const Tensor& tensor, int place) {
  return static_cast<float*>(basis_view(tensor, place, 0).data());
}

Residual PowerSgdTensors::residual(const Tensor& tensor, int place) {
  if (options_.residual == KeptAs::nothing) return {};
  if (options_.residual == KeptAs::f32) return {values_view(tensor, place).data()};
  return {values_view(tensor, place).data(), static_cast<float*>(scales_view(tensor, place).data())};
}

void PowerSgdTensors::draw_bases(int place, std::int64_t step, const Stream& stream) {
  RecycledVector<LowRankJob> jobs;
  for (const Tensor& tensor : tensors_) {
    jobs.push_back({.product = Side::right,
                    .rank = tensor.rank,
                    .matrix = {tensor.shape.rows, tensor.shape.columns},
                    .next_basis = basis(tensor, place),
                    .seed = seed(tensor, step)});
  }
  start_anew(make_recycled<const RecycledVector<LowRankJob>>(std::move(jobs)), stream);
}

std::uint64_t PowerSgdTensors::seed(const Tensor& tensor, std::int64_t step) {
  return Fnv().add(static_cast<std::int64_t>(tensor.seed)).add(step).value();
}

}  // namespace weft::detail
