// How the residual of a matrix is added to it, one kind of residual a struct: none, floats, or 16-bit steps.
// low_rank_simd.cpp includes this file once for every instruction set, so it has no include guard.

HWY_BEFORE_NAMESPACE();
namespace weft::detail::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t line_floats = 16;

struct NoResidual {
  HWY_ATTR NoResidual(const Matrix&, std::int64_t, std::int64_t) {}
  void prefetch(std::int64_t, std::int64_t) const {}
  template <class D>
  HWY_ATTR HWY_INLINE hn::Vec<D> add_to(D, hn::Vec<D> value, std::int64_t) const {
    return value;
  }
};

struct WholeResidual {
  const float* kept;
  HWY_ATTR WholeResidual(const Matrix& matrix, std::int64_t row, std::int64_t column)
      : kept(static_cast<const float*>(matrix.kept.values) + row * matrix.columns + column) {}
  void prefetch(std::int64_t ahead, std::int64_t columns) const {
    for (std::int64_t j = 0; j < columns; j += line_floats) __builtin_prefetch(kept + ahead + j);
  }
  template <class D>
  HWY_ATTR HWY_INLINE hn::Vec<D> add_to(D d, hn::Vec<D> value, std::int64_t j) const {
    return hn::Add(value, hn::LoadU(d, kept + j));
  }
};

struct SteppedResidual {
  const std::int16_t* kept;
  float scale;
  HWY_ATTR SteppedResidual(const Matrix& matrix, std::int64_t row, std::int64_t column)
      : kept(static_cast<const std::int16_t*>(matrix.kept.values) + row * matrix.columns + column),
        scale(matrix.kept.scales[row * blocks_of(matrix.columns) + column / residual_block]) {}
  void prefetch(std::int64_t ahead, std::int64_t columns) const {
    for (std::int64_t j = 0; j < columns; j += 2 * line_floats) __builtin_prefetch(kept + ahead + j);
  }
  template <class D>
  HWY_ATTR HWY_INLINE hn::Vec<D> add_to(D d, hn::Vec<D> value, std::int64_t j) const {
    const hn::RebindToSigned<D> i32;
    const auto steps = hn::PromoteTo(i32, hn::LoadU(hn::Rebind<std::int16_t, D>(), kept + j));
    return hn::Add(value, hn::Mul(hn::ConvertTo(d, steps), hn::Set(d, scale)));
  }
};

/// Calls `function` with the kind of residual that a matrix has.
template <class Function>
HWY_ATTR void with_residual_of(const Matrix& matrix, Function function) {
  if (matrix.kept.values == nullptr) return function(std::type_identity<NoResidual>());
  if (matrix.kept.scales == nullptr) return function(std::type_identity<WholeResidual>());
  function(std::type_identity<SteppedResidual>());
}

}  // namespace
}  // namespace weft::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
