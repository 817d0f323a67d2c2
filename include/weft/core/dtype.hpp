#pragma once
// Data types of elements, in one table.
//
// `DataType` is the run-time name, `DataTypeOf<T>` maps a C++ type to it, and `dispatch` maps it back. `f16`
// and `bf16` are storage types: two bytes, converted to float and back with round-to-nearest-even. Sums of
// them are accumulated in float and rounded once (`Accumulate<T>`).
//
//   dispatch(dtype, [&]<class T>(std::type_identity<T>) { fill<T>(view); });

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <type_traits>
#include <utility>

namespace weft {

enum class DataType : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8, i8, i16, u32, u64 };

namespace detail {

// Branch-free bit arithmetic, so that loops over it vectorize without F16C.

inline std::uint16_t float_to_f16(float value) noexcept {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (word >> 16U) & 0x8000U;
  const std::uint32_t magnitude = word & 0x7fffffffU;
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13U) & 1U) - 0x38000000U) >> 13U;
  // Below 2^-14 adding 0.5 makes the float adder round to a multiple of 2^-24.
  const float shifted = std::bit_cast<float>(magnitude < 0x38800000U ? magnitude : 0U) + 0.5F;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
  std::uint32_t bits = magnitude < 0x38800000U ? subnormal : normal;
  bits = magnitude >= 0x477ff000U ? 0x7c00U : bits;  // rounds beyond 65504
  bits = magnitude > 0x7f800000U ? 0x7e00U : bits;   // NaN stays NaN
  return static_cast<std::uint16_t>(sign | bits);
}

inline float f16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t shifted = (bits & 0x7fffU) << 13U;
  // The product re-biases the exponent and is exact for subnormals as well.
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted) * 0x1p112F);
  const std::uint32_t magnitude = shifted >= 0x0f800000U ? shifted | 0x7f800000U : finite;
  return std::bit_cast<float>(sign | magnitude);
}

}  // namespace detail

/// IEEE 754 binary16.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) noexcept : bits(detail::float_to_f16(value)) {}
  explicit operator float() const noexcept { return detail::f16_to_float(bits); }
};

/// The upper half of a binary32.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool nan = (word & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = word + 0x7fffU + ((word >> 16U) & 1U);
    bits = static_cast<std::uint16_t>(nan ? (word >> 16U) | 0x40U : rounded >> 16U);
  }
  explicit operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
};

// The table: DataType, C++ type, type in which sums are accumulated.
#define WEFT_DATA_TYPES(ROW)             \
  ROW(f32, float, float)                 \
  ROW(f64, double, double)               \
  ROW(f16, Half, float)                  \
  ROW(bf16, BFloat16, float)             \
  ROW(i32, std::int32_t, std::int64_t)   \
  ROW(i64, std::int64_t, std::int64_t)   \
  ROW(u8, std::uint8_t, std::uint32_t)   \
  ROW(i8, std::int8_t, std::int32_t)     \
  ROW(i16, std::int16_t, std::int32_t)   \
  ROW(u32, std::uint32_t, std::uint64_t) \
  ROW(u64, std::uint64_t, std::uint64_t)

/// The last of the enumeration, for values that come from outside.
inline constexpr DataType last_data_type = DataType::u64;

template <class T>
struct DataTypeOf;
template <class T>
struct AccumulateOf;

#define WEFT_ROW(NAME, TYPE, SUM)                     \
  template <>                                         \
  struct DataTypeOf<TYPE> {                           \
    static constexpr DataType value = DataType::NAME; \
  };                                                  \
  template <>                                         \
  struct AccumulateOf<TYPE> {                         \
    using type = SUM;                                 \
  };
WEFT_DATA_TYPES(WEFT_ROW)
#undef WEFT_ROW

template <class T>
inline constexpr DataType data_type_of = DataTypeOf<std::remove_cv_t<T>>::value;
template <class T>
using Accumulate = typename AccumulateOf<T>::type;

/// Calls `function` with std::type_identity<T> of the C++ type that `dtype` names.
template <class Function>
constexpr decltype(auto) dispatch(DataType dtype, Function&& function) {
  switch (dtype) {
#define WEFT_ROW(NAME, TYPE, SUM) \
  case DataType::NAME:            \
    return function(std::type_identity<TYPE>{});
    WEFT_DATA_TYPES(WEFT_ROW)
#undef WEFT_ROW
  }
  __builtin_unreachable();
}

/// Bytes of one element.
constexpr std::size_t size_of(DataType dtype) {
  return dispatch(dtype, []<class T>(std::type_identity<T>) { return sizeof(T); });
}

constexpr bool is_floating(DataType dtype) {
  return dispatch(dtype, []<class T>(std::type_identity<T>) { return !std::is_integral_v<T>; });
}

constexpr const char* name(DataType dtype) {
  switch (dtype) {
#define WEFT_ROW(NAME, TYPE, SUM) \
  case DataType::NAME:            \
    return #NAME;
    WEFT_DATA_TYPES(WEFT_ROW)
#undef WEFT_ROW
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, DataType dtype);

}  // namespace weft
