// The SIMD lanes of update_rule-inl.hpp as Highway's vectors, and conversions of 16-bit numbers.
// update_simd.cpp includes this file once for every instruction set, so it has no include guard.

namespace weft::detail::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;
using HalfTag = hn::Half<Full>;
using WideTag = hn::Rebind<double, HalfTag>;
using Word = hn::RebindToUnsigned<Full>;
using SignedWord = hn::RebindToSigned<Full>;
using Short = hn::Rebind<std::uint16_t, Full>;
constexpr std::int64_t lanes = hn::MaxLanes(Full());
constexpr std::int64_t half_lanes = lanes / 2;

// How many vectors of f64 an iteration computes side by side, operation by operation. A core overlaps the
// latencies of their roots and quotients; one after the other, they would leave half of it idle. Four is what
// 32 registers hold; it is two vectors of f32, or one of 16 bits.
constexpr int chains = 4;
constexpr std::int64_t elements_a_step = chains * half_lanes;

template <class V>
struct Several {
  V at[chains];
};

template <class V>
HWY_ATTR HWY_INLINE V one_of(V same, int) {
  return same;
}
template <class V>
HWY_ATTR HWY_INLINE V one_of(const Several<V>& all, int i) {
  return all.at[i];
}

struct Lanes {
  using Constant = hn::Vec<WideTag>;
  using NarrowConstant = hn::Vec<HalfTag>;
  using Wide = Several<Constant>;
  using Narrow = Several<NarrowConstant>;

  static HWY_ATTR HWY_INLINE Constant all(double value) { return hn::Set(WideTag(), value); }
  static HWY_ATTR HWY_INLINE NarrowConstant narrow_all(double value) {
    return hn::Set(HalfTag(), static_cast<float>(value));
  }
  static HWY_ATTR HWY_INLINE Wide wide(const Narrow& value) {
    Wide result;
    for (int i = 0; i < chains; ++i) result.at[i] = hn::PromoteTo(WideTag(), value.at[i]);
    return result;
  }
  static HWY_ATTR HWY_INLINE Narrow narrow(const Wide& value) {
    Narrow result;
    for (int i = 0; i < chains; ++i) result.at[i] = hn::DemoteTo(HalfTag(), value.at[i]);
    return result;
  }
  template <class A, class B>
  static HWY_ATTR HWY_INLINE Wide product(const A& a, const B& b) {
    Wide result;
    for (int i = 0; i < chains; ++i) result.at[i] = hn::Mul(one_of(a, i), one_of(b, i));
    return result;
  }
  template <class Sum, class A, class B>
  static HWY_ATTR HWY_INLINE Wide plus_product(const Sum& sum, const A& a, const B& b) {
    Wide result;
    for (int i = 0; i < chains; ++i) result.at[i] = hn::MulAdd(one_of(a, i), one_of(b, i), one_of(sum, i));
    return result;
  }
  template <class Sum, class A, class B>
  static HWY_ATTR HWY_INLINE Wide minus_product(const Sum& sum, const A& a, const B& b) {
    Wide result;
    for (int i = 0; i < chains; ++i) result.at[i] = hn::NegMulAdd(one_of(a, i), one_of(b, i), one_of(sum, i));
    return result;
  }
  static HWY_ATTR HWY_INLINE Narrow sum(const Narrow& a, const NarrowConstant& b) {
    Narrow result;
    for (int i = 0; i < chains; ++i) result.at[i] = hn::Add(a.at[i], b);
    return result;
  }
  static HWY_ATTR HWY_INLINE Narrow quotient(const NarrowConstant& a, const Narrow& b) {
    Narrow result;
    for (int i = 0; i < chains; ++i) result.at[i] = hn::Div(a, b.at[i]);
    return result;
  }
  static HWY_ATTR HWY_INLINE Narrow root(const Narrow& value) {
    Narrow result;
    for (int i = 0; i < chains; ++i) result.at[i] = hn::Sqrt(value.at[i]);
    return result;
  }
};

HWY_ATTR HWY_INLINE Lanes::Wide loaded(const float* from) {
  Lanes::Wide result;
  for (int i = 0; i < chains; ++i)
    result.at[i] = hn::PromoteTo(WideTag(), hn::LoadU(HalfTag(), from + i * half_lanes));
  return result;
}
/// `f32_at(i)` returns a whole vector of f32 with the elements from `i` on.
template <class F32At>
HWY_ATTR HWY_INLINE Lanes::Wide widened(const F32At& f32_at) {
  Lanes::Wide result;
  for (int i = 0; i < chains; i += 2) {
    const auto value = f32_at(i * half_lanes);
    result.at[i] = hn::PromoteTo(WideTag(), hn::LowerHalf(HalfTag(), value));
    result.at[i + 1] = hn::PromoteTo(WideTag(), hn::UpperHalf(HalfTag(), value));
  }
  return result;
}

HWY_ATTR HWY_INLINE hn::Vec<Word> words(const std::uint16_t* from) {
  return hn::PromoteTo(Word(), hn::LoadU(Short(), from));
}
using Shorts = hn::Repartition<std::uint16_t, Full>;
HWY_ATTR HWY_INLINE void store_upper_halves(hn::Vec<Word> low, hn::Vec<Word> high, std::uint16_t* to) {
  hn::StoreU(hn::ConcatOdd(Shorts(), hn::BitCast(Shorts(), high), hn::BitCast(Shorts(), low)), Shorts(), to);
}
HWY_ATTR HWY_INLINE void store_lower_halves(hn::Vec<Word> low, hn::Vec<Word> high, std::uint16_t* to) {
  hn::StoreU(hn::ConcatEven(Shorts(), hn::BitCast(Shorts(), high), hn::BitCast(Shorts(), low)), Shorts(), to);
}
/// Which words exceed a limit; words must be below 2^31.
HWY_ATTR HWY_INLINE hn::Mask<Word> above(hn::Vec<Word> word, std::int32_t limit) {
  return hn::RebindMask(Word(), hn::Gt(hn::BitCast(SignedWord(), word), hn::Set(SignedWord(), limit)));
}
HWY_ATTR HWY_INLINE hn::Mask<Word> is_nan(hn::Vec<Full> value) {
  return hn::RebindMask(Word(), hn::IsNaN(value));
}

// Conversions with the bits of core/dtype.hpp in every instruction set; hardware conversions differ in them.
struct Bf16 {
  static HWY_ATTR HWY_INLINE hn::Vec<Full> widen(hn::Vec<Word> word) {
    return hn::BitCast(Full(), hn::ShiftLeft<16>(word));
  }
  static HWY_ATTR HWY_INLINE void store(hn::Vec<Full> low, hn::Vec<Full> high, std::uint16_t* to) {
    store_upper_halves(rounded(low), rounded(high), to);
  }

 private:
  static HWY_ATTR HWY_INLINE hn::Vec<Word> rounded(hn::Vec<Full> value) {
    const auto word = hn::BitCast(Word(), value);
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(Word(), 1U));
    const auto near = hn::Add(word, hn::Add(odd, hn::Set(Word(), 0x7fffU)));
    return hn::IfThenElse(is_nan(value), hn::Or(word, hn::Set(Word(), 0x400000U)), near);
  }
};

struct F16 {
  static HWY_ATTR HWY_INLINE hn::Vec<Full> widen(hn::Vec<Word> word) {
    const auto sign = hn::ShiftLeft<16>(hn::And(word, hn::Set(Word(), 0x8000U)));
    const auto shifted = hn::ShiftLeft<13>(hn::And(word, hn::Set(Word(), 0x7fffU)));
    const auto finite = hn::BitCast(Word(), hn::Mul(hn::BitCast(Full(), shifted), hn::Set(Full(), 0x1p112F)));
    const auto endless = hn::Or(shifted, hn::Set(Word(), 0x7f800000U));
    return hn::BitCast(Full(), hn::Or(sign, hn::IfThenElse(above(shifted, 0x0f7fffff), endless, finite)));
  }
  static HWY_ATTR HWY_INLINE void store(hn::Vec<Full> low, hn::Vec<Full> high, std::uint16_t* to) {
    store_lower_halves(narrow(low), narrow(high), to);
  }

 private:
  static HWY_ATTR HWY_INLINE hn::Vec<Word> narrow(hn::Vec<Full> value) {
    const auto word = hn::BitCast(Word(), value);
    const auto size = hn::And(word, hn::Set(Word(), 0x7fffffffU));
    const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(Word(), 1U));
    const auto rebiased = hn::Add(size, hn::Set(Word(), 0xfffU - 0x38000000U));
    const auto normal = hn::ShiftRight<13>(hn::Add(rebiased, odd));
    const auto is_normal = above(size, 0x387fffff);
    // A sum with 0.5 is rounded to a multiple of 2^-24, the smallest f16.
    const auto beside =
        hn::Add(hn::BitCast(Full(), hn::IfThenZeroElse(is_normal, size)), hn::Set(Full(), 0.5F));
    const auto subnormal = hn::Sub(hn::BitCast(Word(), beside), hn::Set(Word(), 0x3f000000U));
    auto bits = hn::IfThenElse(is_normal, normal, subnormal);
    bits = hn::IfThenElse(above(size, 0x477fefff), hn::Set(Word(), 0x7c00U), bits);
    bits = hn::IfThenElse(is_nan(value), hn::Set(Word(), 0x7e00U), bits);
    return hn::Or(bits, hn::And(hn::ShiftRight<16>(word), hn::Set(Word(), 0x8000U)));
  }
};

}  // namespace
}  // namespace weft::detail::HWY_NAMESPACE
