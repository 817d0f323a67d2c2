// The loops of block codecs over the numbers of block_numbers-inl.hpp; compiled as often as that file. Formats of 4 bits have
// theirs in four_bit_loops-inl.hpp.
//
// To encode a block: find its largest magnitude, write the byte of its scale, then scale and narrow each
// element. To decode: widen and scale back, and set, add or subtract. Each pass reads the block once.

namespace weft::detail::WEFT_LANES {
namespace {

template <class Format, Rounding rounding>
struct Encode {
  using T = typename Format::T;

  static WEFT_LANES_ATTR void block(std::byte* encoded, const float* values, std::size_t count,
                                    [[maybe_unused]] std::uint64_t key) {
    SplitPower scale{1.0F, 1.0F};
    if constexpr (Format::has_scale) {
      const std::uint8_t byte = scale_of(largest(values, static_cast<std::int64_t>(count)), Format::carry);
      *encoded++ = static_cast<std::byte>(byte);
      if (byte == nan_block) {
        std::memset(encoded, 0, count * sizeof(T));
        return;
      }
      scale = factors_of(Format::top - (byte + lowest_exponent));
    }
    T* out = reinterpret_cast<T*>(encoded);
    const RandomBits random(key);
    for_lanes(count, [=](auto d, std::size_t i) WEFT_LANES_ATTR {
      auto value = hn::LoadU(d, values + i);
      if constexpr (Format::has_scale)
        value = hn::Mul(hn::Mul(value, hn::Set(d, scale.first)), hn::Set(d, scale.second));
      if constexpr (rounding == Rounding::stochastic) {
        Format::store(d, value, out + i, random.at(d, i));
      } else {
        Format::store(d, value, out + i);
      }
    });
  }
};

/// @tparam Coder Encode or EncodeFourBit
template <class Coder, Rounding rounding>
WEFT_LANES_ATTR void encode_blocks(BlockFormat format, std::byte* encoded, const float* values,
                                   std::int64_t count, RandomKey random) {
  for (std::int64_t begin = 0; begin < count; begin += block_elements) {
    const std::uint64_t key = rounding == Rounding::stochastic
                                  ? mixed(random.key ^ static_cast<std::uint64_t>(random.first_block++))
                                  : 0;
    const std::int64_t length = count - begin < block_elements ? count - begin : block_elements;
    Coder::block(encoded, values + begin, static_cast<std::size_t>(length), key);
    encoded += block_bytes(format);
  }
}

template <class Format, Into into>
struct Decode {
  using T = typename Format::T;

  template <class D>
  static WEFT_LANES_ATTR void put(D d, hn::Vec<D> value, float* to) {
    if constexpr (into == Into::add) value = hn::Add(hn::LoadU(d, to), value);
    if constexpr (into == Into::subtract) value = hn::Sub(hn::LoadU(d, to), value);
    hn::StoreU(value, d, to);
  }

  static WEFT_LANES_ATTR void block(float* values, const std::byte* encoded, std::size_t count) {
    SplitPower scale{1.0F, 1.0F};
    if constexpr (Format::has_scale) {
      const auto byte = static_cast<std::uint8_t>(*encoded++);
      if (byte == nan_block) {
        for (std::size_t i = 0; i < count; ++i) values[i] = std::bit_cast<float>(0x7fc00000U);
        return;
      }
      scale = factors_of(byte + lowest_exponent - Format::top);
    }
    const T* in = reinterpret_cast<const T*>(encoded);
    for_lanes(count, [=](auto d, std::size_t i) WEFT_LANES_ATTR {
      auto value = Format::load(d, in + i);
      if constexpr (Format::has_scale)
        value = hn::Mul(hn::Mul(value, hn::Set(d, scale.first)), hn::Set(d, scale.second));
      put(d, value, values + i);
    });
  }
};

/// @tparam Coder Decode or DecodeFourBit
template <class Coder>
WEFT_LANES_ATTR void decode_blocks(BlockFormat format, float* values, const std::byte* encoded,
                                   std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += block_elements) {
    const std::int64_t length = count - begin < block_elements ? count - begin : block_elements;
    Coder::block(values + begin, encoded, static_cast<std::size_t>(length));
    encoded += block_bytes(format);
  }
}

template <template <class, Into> class Coder, class Format>
WEFT_LANES_ATTR void decode_as(BlockFormat format, Into into, float* values, const std::byte* encoded,
                               std::int64_t count) {
  if (into == Into::set) return decode_blocks<Coder<Format, Into::set>>(format, values, encoded, count);
  if (into == Into::add) return decode_blocks<Coder<Format, Into::add>>(format, values, encoded, count);
  return decode_blocks<Coder<Format, Into::subtract>>(format, values, encoded, count);
}

WEFT_LANES_ATTR void decode(BlockFormat format, Into into, float* values, const std::byte* encoded,
                            std::int64_t count) {
  switch (format) {
    case BlockFormat::f16:
      return decode_as<Decode, F16>(format, into, values, encoded, count);
    case BlockFormat::bf16:
      return decode_as<Decode, BF16>(format, into, values, encoded, count);
    case BlockFormat::e4m3:
      return decode_as<Decode, E4M3>(format, into, values, encoded, count);
    case BlockFormat::e5m2:
      return decode_as<Decode, E5M2>(format, into, values, encoded, count);
    case BlockFormat::i8:
      return decode_as<Decode, I8>(format, into, values, encoded, count);
    case BlockFormat::i4:
      return decode_as<DecodeFourBit, I4>(format, into, values, encoded, count);
    case BlockFormat::e2m1:
      return decode_as<DecodeFourBit, E2M1>(format, into, values, encoded, count);
    case BlockFormat::i16:
      return decode_as<Decode, I16>(format, into, values, encoded, count);
  }
}

template <template <class, Rounding> class Coder, class Format>
WEFT_LANES_ATTR void encode_small(BlockFormat format, Rounding rounding, std::byte* encoded,
                                  const float* values, std::int64_t count, RandomKey random) {
  if (rounding == Rounding::nearest)
    return encode_blocks<Coder<Format, Rounding::nearest>, Rounding::nearest>(format, encoded, values, count,
                                                                              random);
  encode_blocks<Coder<Format, Rounding::stochastic>, Rounding::stochastic>(format, encoded, values, count,
                                                                           random);
}

WEFT_LANES_ATTR void encode(BlockFormat format, Rounding rounding, std::byte* encoded, const float* values,
                            std::int64_t count, RandomKey random) {
  switch (format) {
    case BlockFormat::f16:
      return encode_blocks<Encode<F16, Rounding::nearest>, Rounding::nearest>(format, encoded, values, count,
                                                                              random);
    case BlockFormat::bf16:
      return encode_blocks<Encode<BF16, Rounding::nearest>, Rounding::nearest>(format, encoded, values, count,
                                                                               random);
    case BlockFormat::e4m3:
      return encode_small<Encode, E4M3>(format, rounding, encoded, values, count, random);
    case BlockFormat::e5m2:
      return encode_small<Encode, E5M2>(format, rounding, encoded, values, count, random);
    case BlockFormat::i8:
      return encode_small<Encode, I8>(format, rounding, encoded, values, count, random);
    case BlockFormat::i4:
      return encode_small<EncodeFourBit, I4>(format, rounding, encoded, values, count, random);
    case BlockFormat::e2m1:
      return encode_small<EncodeFourBit, E2M1>(format, rounding, encoded, values, count, random);
    case BlockFormat::i16:
      return encode_blocks<Encode<I16, Rounding::nearest>, Rounding::nearest>(format, encoded, values, count,
                                                                              random);
  }
}

}  // namespace
}  // namespace weft::detail::WEFT_LANES
