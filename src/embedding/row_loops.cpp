#include "embedding/row_loops.hpp"

#include <algorithm>
#include <cmath>

namespace weft::detail {
void ask_for(const float* row, int columns) {
  const auto* const bytes = reinterpret_cast<const char*>(row);
  const int size = std::min(columns * static_cast<int>(sizeof(float)), 256);
  for (int at = 0; at < size; at += 64) __builtin_prefetch(bytes + at);
}

void add_row(float* to, const float* from, int columns) {
  for (int i = 0; i < columns; ++i) to[i] += from[i];
}

void scale_row(float* to, const float* from, float factor, int columns) {
  for (int i = 0; i < columns; ++i) to[i] = factor * from[i];
}

void pool(const embedding::Bags& bags, embedding::Pooling pooling, std::span<const float* const> rows,
          std::span<const std::int32_t> places, int columns, float* pooled) {
  const auto count = static_cast<std::int64_t>(places.size());
  const auto row_at = [&](std::int64_t position) {
    return rows[static_cast<std::size_t>(places[static_cast<std::size_t>(position)])];
  };
  for (std::int64_t i = 0; i < std::min<std::int64_t>(rows_ahead, count); ++i) ask_for(row_at(i), columns);
  for (std::int64_t sample = 0; sample < bags.samples(); ++sample, pooled += columns) {
    const std::int64_t begin = bags.offsets[static_cast<std::size_t>(sample)];
    const std::int64_t end = bags.offsets[static_cast<std::size_t>(sample) + 1];
    if (begin == end) {
      std::fill_n(pooled, columns, 0.0F);
      continue;
    }
    for (std::int64_t at = begin; at < end; ++at) {
      if (at + rows_ahead < count) ask_for(row_at(at + rows_ahead), columns);
      if (at == begin) {
        std::copy_n(row_at(at), columns, pooled);
      } else {
        add_row(pooled, row_at(at), columns);
      }
    }
    if (pooling == embedding::Pooling::mean && end - begin > 1) {
      const auto size = static_cast<float>(end - begin);
      for (int i = 0; i < columns; ++i) pooled[i] /= size;
    }
  }
}

void gather_rows(const float* rows, std::span<const std::int32_t> slots, int columns, float* to) {
  const auto row_of = [&](std::size_t i) { return rows + static_cast<std::ptrdiff_t>(slots[i]) * columns; };
  for (std::size_t i = 0; i < slots.size(); ++i, to += columns) {
    if (i + rows_ahead < slots.size()) ask_for(row_of(i + rows_ahead), columns);
    std::copy_n(row_of(i), columns, to);
  }
}

void sgd_row(float* row, const float* gradient, float rate, int columns) {
  for (int i = 0; i < columns; ++i) row[i] -= rate * gradient[i];
}

void adagrad_row(float* row, float* sum, const float* gradient, float rate, float epsilon, int columns) {
  constexpr int lanes = 16;
  float squares[lanes] = {};
  const int whole = columns / lanes * lanes;
  for (int i = 0; i < whole; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) squares[lane] += gradient[i + lane] * gradient[i + lane];
  }
  for (int i = whole; i < columns; ++i) squares[i - whole] += gradient[i] * gradient[i];
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) squares[lane] += squares[lane + half];
  }
  *sum += squares[0] / static_cast<float>(columns);
  const float factor = rate / (std::sqrt(*sum) + epsilon);
  for (int i = 0; i < columns; ++i) row[i] -= factor * gradient[i];
}

void adamw_row(float* row, float* first, float* second, const float* gradient, const AdamWFactors& factors,
               int columns) {
  const AdamWFactors f = factors;
  for (int i = 0; i < columns; ++i) {
    const float g = gradient == nullptr ? 0.0F : gradient[i];
    const float m = f.beta1 * first[i] + f.fresh1 * g;
    const float v = f.beta2 * second[i] + f.fresh2 * (g * g);
    first[i] = m;
    second[i] = v;
    row[i] = f.keep * row[i] - f.rate * m / (std::sqrt(v) * f.inverse_root + f.epsilon);
  }
}

}  // namespace weft::detail
