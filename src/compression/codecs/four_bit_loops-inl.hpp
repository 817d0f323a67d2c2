// The loops of formats of 4 bits, 64 elements at a time; compiled as often as block_numbers-inl.hpp.
//
// A step of a loop takes two vectors, of the elements with even and with odd places, and makes a byte of each pair.

namespace weft::detail::WEFT_LANES {
namespace {

/// Not by LoadInterleaved2 for one lane: in some instruction sets it reads more than that.
template <class D>
WEFT_LANES_ATTR void load_pairs(D d, const float* from, hn::Vec<D>& even, hn::Vec<D>& odd) {
  if constexpr (std::is_same_v<D, OneTag>) {
    even = hn::LoadU(d, from);
    odd = hn::LoadU(d, from + 1);
  } else {
    hn::LoadInterleaved2(d, from, even, odd);
  }
}
template <class D>
WEFT_LANES_ATTR void store_pairs(D d, hn::Vec<D> even, hn::Vec<D> odd, float* to) {
  if constexpr (std::is_same_v<D, OneTag>) {
    hn::StoreU(even, d, to);
    hn::StoreU(odd, d, to + 1);
  } else {
    hn::StoreInterleaved2(even, odd, d, to);
  }
}
template <class D, class V>
WEFT_LANES_ATTR void store_words(D, V words, std::uint8_t* to) {
  const hn::Rebind<std::uint8_t, D> narrow;
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<D>(), words)), narrow, to);
}
template <class D>
WEFT_LANES_ATTR auto load_words(D, const std::uint8_t* from) {
  return hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(hn::Rebind<std::uint8_t, D>(), from));
}

template <class Format, Rounding rounding>
struct EncodeFourBit {
  static WEFT_LANES_ATTR void block(std::byte* encoded, const float* values, std::size_t count,
                                    std::uint64_t key) {
    constexpr std::size_t together = four_bit_elements;
    for (std::size_t i = 0; i < count; i += together) {
      run(encoded, values + i, count - i < together ? count - i : together, RandomBits(key), i);
      encoded += four_bit_bytes;
    }
  }

 private:
  /// @param first place of the first element in its block
  static WEFT_LANES_ATTR void run(std::byte* encoded, const float* values, std::size_t count,
                                  RandomBits random, std::size_t first) {
    const std::uint16_t scale =
        four_bit_scale(largest(values, static_cast<std::int64_t>(count)), Format::top);
    std::memcpy(encoded, &scale, sizeof(scale));
    encoded += four_bit_scale_bytes;
    if (scale == nan_scale) {
      std::memset(encoded, 0, (count + 1) / 2);
      return;
    }
    auto* const out = reinterpret_cast<std::uint8_t*>(encoded);
    const float down = 1.0F / four_bit_factor(scale);
    const auto code = [=](auto d, auto value, std::size_t i) WEFT_LANES_ATTR {
      return Format::template narrow<rounding, 2>(d, hn::Mul(value, hn::Set(d, down)), random, first + i);
    };
    for_lanes(count / 2, [=](auto d, std::size_t i) WEFT_LANES_ATTR {
      auto even = hn::Zero(d);
      auto odd = hn::Zero(d);
      load_pairs(d, values + 2 * i, even, odd);
      store_words(d, hn::Or(code(d, even, 2 * i), hn::ShiftLeft<4>(code(d, odd, 2 * i + 1))), out + i);
    });
    if (count % 2 == 0) return;
    const OneTag d;
    store_words(d, code(d, hn::LoadU(d, values + count - 1), count - 1), out + count / 2);
  }
};

template <class Format, Into into>
struct DecodeFourBit {
  static WEFT_LANES_ATTR void block(float* values, const std::byte* encoded, std::size_t count) {
    constexpr std::size_t together = four_bit_elements;
    for (std::size_t i = 0; i < count; i += together) {
      run(values + i, encoded, count - i < together ? count - i : together);
      encoded += four_bit_bytes;
    }
  }

 private:
  static WEFT_LANES_ATTR void run(float* values, const std::byte* encoded, std::size_t count) {
    std::uint16_t scale = 0;
    std::memcpy(&scale, encoded, sizeof(scale));
    if (scale == nan_scale) {
      for (std::size_t i = 0; i < count; ++i) values[i] = std::bit_cast<float>(0x7fc00000U);
      return;
    }
    const float up = four_bit_factor(scale);
    const auto* const in = reinterpret_cast<const std::uint8_t*>(encoded + four_bit_scale_bytes);
    for_lanes(count / 2, [=](auto d, std::size_t i) WEFT_LANES_ATTR {
      const auto words = load_words(d, in + i);
      auto even = decoded(d, words, up);
      auto odd = decoded(d, hn::ShiftRight<4>(words), up);
      if constexpr (into != Into::set) {
        auto even_before = hn::Zero(d);
        auto odd_before = hn::Zero(d);
        load_pairs(d, values + 2 * i, even_before, odd_before);
        even = combined(even_before, even);
        odd = combined(odd_before, odd);
      }
      store_pairs(d, even, odd, values + 2 * i);
    });
    if (count % 2 == 0) return;
    const OneTag d;
    float* const last = values + count - 1;
    auto value = decoded(d, load_words(d, in + count / 2), up);
    if constexpr (into != Into::set) value = combined(hn::LoadU(d, last), value);
    hn::StoreU(value, d, last);
  }

  /// Of the lowest 4 bits of each word.
  template <class D, class V>
  static WEFT_LANES_ATTR hn::Vec<D> decoded(D d, V words, float up) {
    return hn::Mul(Format::Code::widen(d, words), hn::Set(d, up));
  }
  template <class V>
  static WEFT_LANES_ATTR V combined(V before, V value) {
    if constexpr (into == Into::add) {
      return hn::Add(before, value);
    } else {
      return hn::Sub(before, value);
    }
  }
};

}  // namespace
}  // namespace weft::detail::WEFT_LANES
