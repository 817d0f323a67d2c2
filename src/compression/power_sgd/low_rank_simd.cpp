// The arithmetic of low_rank.hpp with vectors. Highway compiles this file once for every instruction set and
// picks one at run time.
//
// The loops work on tiles of four rows by 256 columns (the columns that share a scale). A tile of M + E is
// loaded once into the first-level cache, whatever the rank; then each vector of a factor is loaded once for
// four rows. A pass reads M and E once and costs rank multiplications and additions an element; rebuild costs
// twice that.

#include <algorithm>
#include <cstring>

#include "compression/power_sgd/low_rank.hpp"
#include "core/base/simd_targets.hpp"
#include "weft/core/recycled.hpp"

// The loops use arrays of vectors, which vectors of unknown length do not allow.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_RVV | WEFT_SIMD_LEFT_OUT)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/power_sgd/low_rank_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// clang-format off
#include "compression/power_sgd/low_rank_residual-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weft::detail::HWY_NAMESPACE {
namespace {

constexpr std::int64_t tile_columns = residual_block;
constexpr int tile_rows = 4;

using Wide = hn::CappedTag<float, partial_sums>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Wide()));
constexpr int vectors = partial_sums / lanes;  // that hold the partial sums of a row

/// Calls `function(d, column)` for all columns of a tile, in vectors as wide as fit.
template <class Function>
HWY_ATTR HWY_INLINE void for_columns(std::int64_t columns, Function function) {
  std::int64_t j = 0;
  for (; j + lanes <= columns; j += lanes) function(Wide(), j);
  for (; j + 4 <= columns; j += 4) function(hn::CappedTag<float, 4>(), j);
  for (; j < columns; ++j) function(hn::CappedTag<float, 1>(), j);
}

/// M + E of some rows and columns. The columns that fill up the last group of partial sums are zero.
class Tile {
 public:
  template <class Kept>
  HWY_ATTR HWY_INLINE void load(const Matrix& matrix, std::int64_t row, int rows, std::int64_t column,
                                std::int64_t columns) {
    const bool is_last = column + columns == matrix.columns;
    const std::int64_t ahead = is_last ? tile_rows * matrix.columns - column : tile_columns;
    for (int r = 0; r < rows; ++r) {
      const float* values = matrix.values + (row + r) * matrix.columns + column;
      const Kept kept(matrix, row + r, column);
      for (std::int64_t j = 0; j < columns; j += line_floats) __builtin_prefetch(values + ahead + j);
      kept.prefetch(ahead, columns);
      float* to = at(r);
      for_columns(columns, [&](auto d, std::int64_t j) HWY_ATTR {
        hn::Store(kept.add_to(d, hn::LoadU(d, values + j), j), d, to + j);
      });
      for (std::int64_t j = columns; j % partial_sums != 0; ++j) to[j] = 0;
    }
  }
  HWY_ATTR HWY_INLINE float* at(int row) { return values_[row]; }
  HWY_ATTR HWY_INLINE const float* at(int row) const { return values_[row]; }

 private:
  HWY_ALIGN float values_[tile_rows][tile_columns];
};

/// Calls `function(integral_constant rows, row)` for all rows, four at a time and then one by one.
template <class Function>
HWY_ATTR HWY_INLINE void for_rows(std::int64_t rows, Function function) {
  std::int64_t i = 0;
  for (; i + tile_rows <= rows; i += tile_rows) function(std::integral_constant<int, tile_rows>(), i);
  for (; i < rows; ++i) function(std::integral_constant<int, 1>(), i);
}

template <class Function>
HWY_ATTR HWY_INLINE void for_tiles(std::int64_t columns, Function function) {
  for (std::int64_t j = 0; j < columns; j += tile_columns) function(j, std::min(tile_columns, columns - j));
}

/// `partial` += the products of `rows` rows of a tile with one vector of a factor.
template <int rows>
HWY_ATTR HWY_INLINE void multiply(const Tile& tile, const float* right, std::int64_t columns,
                                  float (*partial)[partial_sums]) {
  const Wide d;
  hn::Vec<Wide> sum[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) sum[r][v] = hn::Load(d, partial[r] + v * lanes);
  }
  const auto add = [&](const float* factor, std::int64_t j) HWY_ATTR {
    for (int v = 0; v < vectors; ++v) {
      const auto by = hn::LoadU(d, factor + v * lanes);
      for (int r = 0; r < rows; ++r)
        sum[r][v] = hn::Add(sum[r][v], hn::Mul(hn::Load(d, tile.at(r) + j + v * lanes), by));
    }
  };
  std::int64_t j = 0;
  for (; j + partial_sums <= columns; j += partial_sums) add(right + j, j);
  if (j < columns) {
    float rest[partial_sums] = {};
    std::copy(right + j, right + columns, rest);
    add(rest, j);
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) hn::Store(sum[r][v], d, partial[r] + v * lanes);
  }
}

HWY_ATTR HWY_INLINE float by_halves(float* partial) {
  for (int half = partial_sums / 2; half > 0; half /= 2) {
    for (int p = 0; p < half; ++p) partial[p] += partial[p + half];
  }
  return partial[0];
}

template <class Kept>
HWY_ATTR void project_as(const Matrix& matrix, const float* right, int rank, float* left) {
  struct alignas(64) Partial {
    float sums[tile_rows][partial_sums];
  };
  RecycledVector<Partial> partial(static_cast<std::size_t>(rank));
  Tile tile;
  for_rows(matrix.rows, [&](auto rows, std::int64_t i) HWY_ATTR {
    std::memset(partial.data(), 0, partial.size() * sizeof(Partial));
    for_tiles(matrix.columns, [&](std::int64_t j, std::int64_t columns) HWY_ATTR {
      tile.load<Kept>(matrix, i, rows, j, columns);
      for (int k = 0; k < rank; ++k)
        multiply<rows>(tile, right + k * matrix.columns + j, columns,
                       partial[static_cast<std::size_t>(k)].sums);
    });
    for (int k = 0; k < rank; ++k) {
      for (int r = 0; r < rows; ++r)
        left[k * matrix.rows + i + r] = by_halves(partial[static_cast<std::size_t>(k)].sums[r]);
    }
  });
}

template <class Kept>
HWY_ATTR void project_transposed_as(const Matrix& matrix, const float* left, int rank, float* right) {
  std::fill(right, right + rank * matrix.columns, 0.0F);
  Tile tile;
  for_rows(matrix.rows, [&](auto rows, std::int64_t i) HWY_ATTR {
    for_tiles(matrix.columns, [&](std::int64_t j, std::int64_t columns) HWY_ATTR {
      tile.load<Kept>(matrix, i, rows, j, columns);
      for (int k = 0; k < rank; ++k) {
        const float* by = left + k * matrix.rows + i;
        float* to = right + k * matrix.columns + j;
        for_columns(columns, [&](auto d, std::int64_t c) HWY_ATTR {
          auto sum = hn::LoadU(d, to + c);
          for (int r = 0; r < rows; ++r)
            sum = hn::Add(sum, hn::Mul(hn::Load(d, tile.at(r) + c), hn::Set(d, by[r])));
          hn::StoreU(sum, d, to + c);
        });
      }
    });
  });
}

/// The product of factors at column j, a vector for each of `rows` rows.
template <int rows, class D>
HWY_ATTR HWY_INLINE void product(D d, const Factors& factors, const Matrix& matrix, std::int64_t i,
                                 std::int64_t j, hn::Vec<D>* sum) {
  for (int r = 0; r < rows; ++r) sum[r] = hn::Zero(d);
  for (int k = 0; k < factors.rank; ++k) {
    const auto right = hn::LoadU(d, factors.right + k * matrix.columns + j);
    const float* left = factors.left + k * matrix.rows + i;
    for (int r = 0; r < rows; ++r) sum[r] = hn::Add(sum[r], hn::Mul(hn::Set(d, left[r]), right));
  }
}

/// The largest magnitudes in the rows of a tile, lane by lane.
class Largest {
 public:
  template <class D>
  HWY_ATTR HWY_INLINE void add(D d, int row, hn::Vec<D> value) {
    hn::Store(hn::Max(hn::Load(d, lanes_[row]), hn::Abs(value)), d, lanes_[row]);
  }
  HWY_ATTR HWY_INLINE float of(int row) const {
    return hn::GetLane(hn::MaxOfLanes(Wide(), hn::Load(Wide(), lanes_[row])));
  }

 private:
  HWY_ALIGN float lanes_[tile_rows][partial_sums] = {};
};

/// Stores a row of a tile as residual.
HWY_ATTR HWY_INLINE void keep(const Matrix& matrix, std::int64_t row, std::int64_t column,
                              std::int64_t columns, const float* lost, float largest) {
  const std::int64_t begin = row * matrix.columns + column;
  if (matrix.next.scales == nullptr) {
    std::copy(lost, lost + columns, static_cast<float*>(matrix.next.values) + begin);
    return;
  }
  const float scale = residual_scale(largest);
  const float inverse = 1.0F / scale;
  matrix.next.scales[row * blocks_of(matrix.columns) + column / residual_block] = scale;
  auto* to = static_cast<std::int16_t*>(matrix.next.values) + begin;
  for_columns(columns, [&](auto d, std::int64_t j) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> i32;
    auto steps = hn::NearestInt(hn::Mul(hn::LoadU(d, lost + j), hn::Set(d, inverse)));
    steps = hn::Max(steps, hn::Set(i32, -INT16_MAX));  // DemoteTo saturates at the other end
    const hn::Rebind<std::int16_t, decltype(d)> i16;
    hn::StoreU(hn::DemoteTo(i16, steps), i16, to + j);
  });
}

/// @param mean null: only the residual is written
template <class Kept>
HWY_ATTR void rebuild_as(const Matrix& matrix, const Factors& mine, const Factors* mean) {
  Tile tile;
  for_rows(matrix.rows, [&](auto rows, std::int64_t i) HWY_ATTR {
    for_tiles(matrix.columns, [&](std::int64_t column, std::int64_t columns) HWY_ATTR {
      tile.load<Kept>(matrix, i, rows, column, columns);
      Largest largest;
      for_columns(columns, [&](auto d, std::int64_t j) HWY_ATTR {
        hn::Vec<decltype(d)> sum[rows.value];
        product<rows>(d, mine, matrix, i, column + j, sum);
        for (int r = 0; r < rows; ++r) {
          float* lost = tile.at(r) + j;
          auto rest = hn::Min(hn::Sub(hn::Load(d, lost), sum[r]), hn::Set(d, largest_residual));
          rest = hn::Max(rest, hn::Set(d, -largest_residual));
          hn::Store(rest, d, lost);
          largest.add(d, r, rest);
        }
        if (mean == nullptr) return;
        product<rows>(d, *mean, matrix, i, column + j, sum);
        for (int r = 0; r < rows; ++r)
          hn::StoreU(sum[r], d, matrix.values + (i + r) * matrix.columns + column + j);
      });
      for (int r = 0; r < rows; ++r) keep(matrix, i + r, column, columns, tile.at(r), largest.of(r));
    });
  });
}

HWY_ATTR void expand_rows(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end) {
  for_rows(end - begin, [&](auto rows, std::int64_t i) HWY_ATTR {
    for_columns(matrix.columns, [&](auto d, std::int64_t j) HWY_ATTR {
      hn::Vec<decltype(d)> sum[rows.value];
      product<rows>(d, mean, matrix, begin + i, j, sum);
      for (int r = 0; r < rows; ++r)
        hn::StoreU(sum[r], d, matrix.values + (begin + i + r) * matrix.columns + j);
    });
  });
}

HWY_ATTR void expand_part_of_row(const Matrix& matrix, const Factors& mean, std::int64_t begin,
                                 std::int64_t end) {
  const std::int64_t row = begin / matrix.columns;
  const std::int64_t column = begin % matrix.columns;
  for_columns(end - begin, [&](auto d, std::int64_t j) HWY_ATTR {
    hn::Vec<decltype(d)> sum[1];
    product<1>(d, mean, matrix, row, column + j, sum);
    hn::StoreU(sum[0], d, matrix.values + begin + j);
  });
}

HWY_ATTR void project(const Matrix& matrix, const float* right, int rank, float* left) {
  with_residual_of(matrix, [&]<class Kept>(std::type_identity<Kept>)
                               HWY_ATTR { project_as<Kept>(matrix, right, rank, left); });
}

HWY_ATTR void project_transposed(const Matrix& matrix, const float* left, int rank, float* right) {
  with_residual_of(matrix, [&]<class Kept>(std::type_identity<Kept>)
                               HWY_ATTR { project_transposed_as<Kept>(matrix, left, rank, right); });
}

HWY_ATTR void rebuild(const Matrix& matrix, const Factors& mine, const Factors* mean) {
  with_residual_of(
      matrix, [&]<class Kept>(std::type_identity<Kept>) HWY_ATTR { rebuild_as<Kept>(matrix, mine, mean); });
}

HWY_ATTR void expand(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end) {
  const std::int64_t whole = std::min((begin + matrix.columns - 1) / matrix.columns * matrix.columns, end);
  if (begin < whole) expand_part_of_row(matrix, mean, begin, whole);
  const std::int64_t last = std::max(end / matrix.columns * matrix.columns, whole);
  if (whole < last) expand_rows(matrix, mean, whole / matrix.columns, last / matrix.columns);
  if (last < end) expand_part_of_row(matrix, mean, last, end);
}

}  // namespace
}  // namespace weft::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::detail {

HWY_EXPORT(project);
HWY_EXPORT(project_transposed);
HWY_EXPORT(rebuild);
HWY_EXPORT(expand);

void project(const Matrix& matrix, const float* right, int rank, float* left) {
  HWY_DYNAMIC_DISPATCH(project)(matrix, right, rank, left);
}

void project_transposed(const Matrix& matrix, const float* left, int rank, float* right) {
  HWY_DYNAMIC_DISPATCH(project_transposed)(matrix, left, rank, right);
}

void rebuild(const Matrix& matrix, const Factors& mine, const Factors& mean) {
  if (matrix.next.values == nullptr) return expand(matrix, mean, 0, matrix.rows * matrix.columns);
  HWY_DYNAMIC_DISPATCH(rebuild)(matrix, mine, &mean);
}

void keep_residual(const Matrix& matrix, const Factors& mine) {
  if (matrix.next.values != nullptr) HWY_DYNAMIC_DISPATCH(rebuild)(matrix, mine, nullptr);
}

void expand(const Matrix& matrix, const Factors& mean, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(expand)(matrix, mean, begin, end);
}

}  // namespace weft::detail
#endif
