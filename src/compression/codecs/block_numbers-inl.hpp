// How one number is coded in a block, for each format. This file is compiled once for every instruction set,
// and once for plain loops, so it has no include guard.
//
// WEFT_LANES is the namespace; its `hn` has the vectors. WEFT_LANES_ATTR stands before every function.
// WEFT_LANES_F16 says whether the vectors convert to binary16 in hardware.
//
// A number is narrowed in integer arithmetic on the bits of its f32. To nearest: add half a unit of the last
// place that stays, less one bit, and one more bit if that place is odd; then shift. Stochastic: add random
// bits below that place; then shift.

namespace weft::detail::WEFT_LANES {
namespace {

using FullTag = hn::CappedTag<float, 16>;  // a block is a multiple of its lanes
using OneTag = hn::CappedTag<float, 1>;

// Words are below 2^31 wherever they are compared, so signed comparisons give the right result.
template <class D, class V>
WEFT_LANES_ATTR auto above(D d, V words, std::int32_t limit) {
  const hn::RebindToSigned<D> i32;
  return hn::RebindMask(d, hn::Gt(hn::BitCast(i32, words), hn::Set(i32, limit)));
}

/// The place of each lane's element. Loaded in place of Iota, which in Highway 1.0 writes lane by lane and then stalls when it reads the vector.
template <class U32>
WEFT_LANES_ATTR auto first_places(U32 u32) {
#if WEFT_LANES_ONE
  return hn::Zero(u32);
#else
  alignas(64) static constexpr std::uint32_t places[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                           8, 9, 10, 11, 12, 13, 14, 15};
  return hn::LoadU(u32, places);
#endif
}

/// 32 random bits for each element of a block.
class RandomBits {
 public:
  WEFT_LANES_ATTR explicit RandomBits(std::uint64_t key)
      : low_(static_cast<std::uint32_t>(key)), high_(key >> 32U) {}

  /// Of elements i, i + stride, ... of the block.
  template <int stride = 1, class D>
  WEFT_LANES_ATTR auto at(D, std::size_t i) const {
    const hn::RebindToUnsigned<D> u32;
    auto place = first_places(u32);
    if constexpr (stride == 2) place = hn::Add(place, place);
    place = hn::Add(place, hn::Set(u32, static_cast<std::uint32_t>(i)));
    auto word = hn::Xor(place, hn::Set(u32, low_));
    word = hn::Mul(hn::Xor(word, hn::ShiftRight<16>(word)), hn::Set(u32, 0x7feb352dU));
    word = hn::Add(word, hn::Set(u32, static_cast<std::uint32_t>(high_)));
    word = hn::Mul(hn::Xor(word, hn::ShiftRight<15>(word)), hn::Set(u32, 0x846ca68bU));
    return hn::Xor(word, hn::ShiftRight<16>(word));
  }

 private:
  std::uint32_t low_;
  std::uint64_t high_;
};

/// Stores an encoded element, a 32-bit word in a lane, as a narrower word.
template <class Word, class Code>
struct Stored {
  using T = Word;
  static constexpr bool has_scale = true;
  static constexpr bool is_four_bit = false;

  template <class D>
  static WEFT_LANES_ATTR void store(D d, hn::Vec<D> value, T* to) {
    put(d, Code::narrow(d, value), to);
  }
  template <class D>
  static WEFT_LANES_ATTR void store(D d, hn::Vec<D> value, T* to, hn::Vec<hn::RebindToUnsigned<D>> random) {
    put(d, Code::narrow(d, value, random), to);
  }
  template <class D>
  static WEFT_LANES_ATTR hn::Vec<D> load(D d, const T* from) {
    const hn::RebindToUnsigned<D> u32;
    return Code::widen(d, hn::PromoteTo(u32, hn::LoadU(hn::Rebind<T, D>(), from)));
  }

 private:
  template <class D, class V>
  static WEFT_LANES_ATTR void put(D, V words, T* to) {
    const hn::Rebind<T, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<D>(), words)), narrow, to);
  }
};

/// Floating point in `bits` bits, `mantissa` of which are the mantissa's. Values are scaled to
/// its range before.
template <int bits, int mantissa, int bias>
struct SmallFloat {
  static constexpr int dropped = 23 - mantissa;
  static constexpr std::uint32_t sign_bit = 1U << (bits - 1);
  static constexpr int sign_shift = 32 - bits;
  static constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - bias) << 23U;
  static constexpr std::uint32_t least_normal = static_cast<std::uint32_t>(128 - bias) << 23U;
  static constexpr int subnormal_exponent = 1 - bias - mantissa;

  static constexpr float power(int exponent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23U);
  }

  template <class D>
  static WEFT_LANES_ATTR auto narrow(D d, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> u32;
    const auto magnitude = hn::And(hn::BitCast(u32, value), hn::Set(u32, 0x7fffffffU));
    const auto odd = hn::And(hn::ShiftRight<dropped>(magnitude), hn::Set(u32, 1U));
    const auto half = hn::Add(odd, hn::Set(u32, (1U << (dropped - 1)) - 1U - rebias));
    const auto normal = hn::ShiftRight<dropped>(hn::Add(magnitude, half));
    const auto is_normal = above(u32, magnitude, static_cast<std::int32_t>(least_normal - 1));
    // Subnormal results: the sum with a number whose last place is the least subnormal is rounded to
    // multiples of the least subnormal by the adder.
    constexpr float beside = power(subnormal_exponent + 23);
    const auto small = hn::BitCast(d, hn::IfThenZeroElse(is_normal, magnitude));
    const auto subnormal = hn::Sub(hn::BitCast(u32, hn::Add(small, hn::Set(d, beside))),
                                   hn::Set(u32, std::bit_cast<std::uint32_t>(beside)));
    return signed_as(u32, value, hn::IfThenElse(is_normal, normal, subnormal));
  }

  template <class D, class V>
  static WEFT_LANES_ATTR V narrow(D d, hn::Vec<D> value, V random) {
    const hn::RebindToUnsigned<D> u32;
    const auto magnitude = hn::And(hn::BitCast(u32, value), hn::Set(u32, 0x7fffffffU));
    const auto added = hn::And(random, hn::Set(u32, (1U << dropped) - 1U));
    const auto normal = hn::ShiftRight<dropped>(hn::Sub(hn::Add(magnitude, added), hn::Set(u32, rebias)));
    const auto is_normal = above(u32, magnitude, static_cast<std::int32_t>(least_normal - 1));
    const auto small = hn::BitCast(d, hn::IfThenZeroElse(is_normal, magnitude));
    const auto steps = hn::Mul(small, hn::Set(d, power(23 - subnormal_exponent)));
    const auto fixed = hn::BitCast(u32, hn::ConvertTo(hn::RebindToSigned<D>(), steps));
    const auto subnormal = hn::ShiftRight<23>(hn::Add(fixed, hn::ShiftRight<9>(random)));
    return signed_as(u32, value, hn::IfThenElse(is_normal, normal, subnormal));
  }

  template <class D, class V>
  static WEFT_LANES_ATTR hn::Vec<D> widen(D d, V words) {
    const hn::RebindToUnsigned<D> u32;
    const auto sign = hn::ShiftLeft<sign_shift>(hn::And(words, hn::Set(u32, sign_bit)));
    const auto shifted = hn::ShiftLeft<dropped>(hn::And(words, hn::Set(u32, sign_bit - 1U)));
    const auto normal = hn::Add(shifted, hn::Set(u32, rebias));
    // By a difference, not by a product of subnormal numbers, which is slow on some machines.
    const auto raised = hn::BitCast(d, hn::Add(shifted, hn::Set(u32, least_normal)));
    const auto subnormal = hn::BitCast(u32, hn::Sub(raised, hn::Set(d, power(1 - bias))));
    const auto is_normal = above(u32, shifted, (1 << 23) - 1);
    return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_normal, normal, subnormal)));
  }

 private:
  template <class D, class V>
  static WEFT_LANES_ATTR V signed_as(D u32, hn::Vec<hn::Rebind<float, D>> value, V encoded) {
    return hn::Or(encoded,
                  hn::And(hn::ShiftRight<sign_shift>(hn::BitCast(u32, value)), hn::Set(u32, sign_bit)));
  }
};

template <int bits>
struct Integer {
  static constexpr std::uint32_t mask = (1U << bits) - 1U;

  template <class D>
  static WEFT_LANES_ATTR auto narrow(D d, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> u32;
    // The last place of 1.5 * 2^23 is 1: the adder rounds, and the low bits of the sum are the integer.
    return hn::And(hn::BitCast(u32, hn::Add(value, hn::Set(d, 0x1.8p23F))), hn::Set(u32, mask));
  }

  template <class D, class V>
  static WEFT_LANES_ATTR V narrow(D d, hn::Vec<D> value, V random) {
    const hn::RebindToUnsigned<D> u32;
    const auto word = hn::BitCast(u32, value);
    const auto magnitude = hn::BitCast(d, hn::And(word, hn::Set(u32, 0x7fffffffU)));
    const auto fixed =
        hn::BitCast(u32, hn::ConvertTo(hn::RebindToSigned<D>(), hn::Mul(magnitude, hn::Set(d, 0x1p23F))));
    const auto rounded = hn::ShiftRight<23>(hn::Add(fixed, hn::ShiftRight<9>(random)));
    const auto is_negative = hn::Sub(hn::Zero(u32), hn::ShiftRight<31>(word));
    return hn::And(hn::Sub(hn::Xor(rounded, is_negative), is_negative), hn::Set(u32, mask));
  }

  template <class D, class V>
  static WEFT_LANES_ATTR hn::Vec<D> widen(D d, V words) {
    const hn::RebindToSigned<D> i32;
    const auto high = hn::BitCast(i32, hn::ShiftLeft<32 - bits>(words));
    return hn::ConvertTo(d, hn::ShiftRight<32 - bits>(high));
  }
};

struct UpperHalf {
  template <class D>
  static WEFT_LANES_ATTR auto narrow(D, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> u32;
    const auto word = hn::BitCast(u32, value);
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(u32, 1U));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(word, hn::Set(u32, 0x7fffU)), odd));
    const auto nan = hn::Or(hn::ShiftRight<16>(word), hn::Set(u32, 0x40U));
    return hn::IfThenElse(above(u32, hn::And(word, hn::Set(u32, 0x7fffffffU)), 0x7f800000), nan, rounded);
  }
  template <class D, class V>
  static WEFT_LANES_ATTR hn::Vec<D> widen(D d, V words) {
    return hn::BitCast(d, hn::ShiftLeft<16>(words));
  }
};

#if WEFT_LANES_F16
struct F16 {
  using T = hwy::float16_t;
  static constexpr bool has_scale = true;
  static constexpr bool is_four_bit = false;
  template <class D>
  static WEFT_LANES_ATTR void store(D, hn::Vec<D> value, T* to) {
    const hn::Rebind<T, D> f16;
    hn::StoreU(hn::DemoteTo(f16, value), f16, to);
  }
  template <class D>
  static WEFT_LANES_ATTR hn::Vec<D> load(D d, const T* from) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), from));
  }
#else
struct F16 : Stored<std::uint16_t, SmallFloat<16, 10, 15>> {
#endif
  static constexpr int top = 14;
  static constexpr std::uint32_t carry = 0;
};
struct BF16 : Stored<std::uint16_t, UpperHalf> {
  static constexpr bool has_scale = false;
};
struct E4M3 : Stored<std::uint8_t, SmallFloat<8, 3, 7>> {
  static constexpr int top = 7;
  static constexpr std::uint32_t carry = 0;
};
struct E5M2 : Stored<std::uint8_t, SmallFloat<8, 2, 15>> {
  static constexpr int top = 14;
  static constexpr std::uint32_t carry = 0;
};
// A scaled magnitude is at most 127 (i8) or 32767 (i16), even after it is randomly rounded up.
struct I8 : Stored<std::uint8_t, Integer<8>> {
  static constexpr int top = 6;
  static constexpr std::uint32_t carry = 0x1ffff;
};
struct I16 : Stored<std::uint16_t, Integer<16>> {
  static constexpr int top = 14;
  static constexpr std::uint32_t carry = 0x1ff;
};

/// Two elements a byte. A scaled magnitude is at most `most`, but for the rounding of 1 / scale: stochastic rounding could round that up, so it
/// is cut off there.
template <class CodeOfOne, int most>
struct FourBit {
  using Code = CodeOfOne;
  static constexpr bool is_four_bit = true;
  static constexpr float top = static_cast<float>(most);

  /// `i` is the place of the first lane's element in its block; the next one's is i + stride.
  template <Rounding rounding, int stride, class D>
  static WEFT_LANES_ATTR auto narrow(D d, hn::Vec<D> value, const RandomBits& random, std::size_t i) {
    if constexpr (rounding == Rounding::stochastic) {
      value = hn::Max(hn::Min(value, hn::Set(d, top)), hn::Set(d, -top));
      return Code::narrow(d, value, random.template at<stride>(d, i));
    } else {
      return Code::narrow(d, value);
    }
  }
};
struct I4 : FourBit<Integer<4>, 7> {};
struct E2M1 : FourBit<SmallFloat<4, 1, 1>, 6> {};

}  // namespace
}  // namespace weft::detail::WEFT_LANES
