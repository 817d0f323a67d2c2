#include "compression/auto/measured_speed.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "compression/power_sgd/low_rank.hpp"
#include "compression/power_sgd/power_sgd_tensors.hpp"
#include "weft/compression/codec.hpp"

namespace weft::detail {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 20;  // more than a core's own caches hold

template <class Work>
double median_seconds(Work work) {
  using Clock = std::chrono::steady_clock;
  work();  // warms up: touches memory for the first time
  std::array<double, 5> seconds{};
  for (double& one : seconds) {
    const auto begin = Clock::now();
    work();
    one = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

std::optional<MatrixShape> largest_matrix(const ParamLayout& layout, int rank) {
  const PowerSgdOptions options{.rank = rank};
  std::optional<MatrixShape> largest;
  for (int i = 0; i < layout.parameters(); ++i) {
    const MatrixShape shape = matrix_shape(layout, ParamId{i});
    if (is_compressible(shape, options) && (!largest || shape.elements() > largest->elements()))
      largest = shape;
  }
  if (largest) largest->rows = std::clamp(most_elements / largest->columns, std::int64_t{1}, largest->rows);
  return largest;
}

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  draw(values, 1);
  return values;
}

void measure_low_rank(CodingSpeed& speed, const MatrixShape& shape, int rank) {
  const auto size = static_cast<std::size_t>(shape.elements());
  const auto scales = static_cast<std::size_t>(shape.rows * blocks_of(shape.columns));
  std::vector<float> values = numbers(shape.elements());
  std::array<std::vector<std::int16_t>, 2> residual{std::vector<std::int16_t>(size),
                                                    std::vector<std::int16_t>(size)};
  std::array<std::vector<float>, 2> scale{std::vector<float>(scales, 1), std::vector<float>(scales, 1)};
  std::vector<float> left = numbers(rank * shape.rows);
  std::vector<float> right = numbers(rank * shape.columns);
  std::vector<float> made_left(left.size());
  std::vector<float> made_right(right.size());
  const Matrix matrix{shape.rows,
                      shape.columns,
                      values.data(),
                      {residual[0].data(), scale[0].data()},
                      {residual[1].data(), scale[1].data()}};
  const Factors factors{left.data(), right.data(), rank};
  const double products = median_seconds([&] {
    project(matrix, right.data(), rank, made_left.data());
    project_transposed(matrix, left.data(), rank, made_right.data());
  });
  speed.matrix = (products + median_seconds([&] { rebuild(matrix, factors, factors); })) /
                 static_cast<double>(shape.elements());
  const double orthonormal = median_seconds([&] {
    orthonormalize(left, rank);
    orthonormalize(right, rank);
  });
  speed.factor = orthonormal / static_cast<double>(shape.factor_elements(rank));
}

}  // namespace

CodingSpeed measure_coding(const ParamLayout& layout, int rank) {
  CodingSpeed speed;
  const std::int64_t count = std::min(layout.size(), most_elements);
  std::vector<float> values = numbers(count);
  std::vector<float> copies(values.size());
  const auto codec = bf16_codec();
  std::vector<std::byte> code(static_cast<std::size_t>(codec->encoded_bytes(count)));
  speed.copying = median_seconds([&] {
                    std::ranges::copy(values, copies.begin());
                    std::ranges::copy(copies, values.begin());
                  }) /
                  static_cast<double>(count);
  speed.bf16 = median_seconds([&] {
                 codec->encode(code, values, {});
                 // A rank decodes a part of every rank's code: as much as one whole code.
                 codec->decode(copies, code, {}, Into::add);
                 codec->decode(values, code, {});
               }) /
               static_cast<double>(count);
  if (const auto shape = largest_matrix(layout, rank)) measure_low_rank(speed, *shape, rank);
  return speed;
}

std::vector<LinkModel::Sample> measure_link(Communicator& comm, const ParamLayout& layout) {
  constexpr std::int64_t few = 16;
  const std::int64_t many = std::clamp(layout.size(), 2 * few, most_elements);
  Buffer buffer = comm.allocate(DataType::f32, many);
  Stream stream;
  std::vector<LinkModel::Sample> samples;
  for (const std::int64_t count : {few, (few + many) / 2, many}) {
    const View data = buffer.view().slice(0, count);
    const double seconds = median_seconds([&] { comm.all_reduce(data, ReduceOp::sum, stream).wait(); });
    samples.push_back({static_cast<double>(count) * sizeof(float), std::max(seconds, 1e-9)});
  }
  return samples;
}

}  // namespace weft::detail
