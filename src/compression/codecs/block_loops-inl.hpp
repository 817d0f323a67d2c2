// The loops of block codecs over the numbers of block_numbers-inl.hpp; compiled as often as that file.
//
// To encode a block: find its largest magnitude, write the byte of its scale, then scale and narrow each
// element. To decode: widen and scale back, and set, add or subtract. Each pass reads the block once.

namespace weft::detail::WEFT_LANES {
namespace {

/// Calls `step(d, i)` for whole vectors of elements, then for the remaining ones one by one.
template <class Step>
WEFT_LANES_ATTR void for_lanes(std::size_t count, const Step& step) {
  const FullTag full;
  const std::size_t lanes = hn::Lanes(full);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) step(full, i);
  for (; i < count; ++i) step(OneTag(), i);
}

WEFT_LANES_ATTR std::uint32_t largest(const float* values, std::int64_t count) {
  const hn::RebindToSigned<FullTag> i32;
  const std::size_t lanes = hn::Lanes(i32);
  const auto size = static_cast<std::size_t>(count);
  auto most = hn::Zero(i32);
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto word = hn::BitCast(i32, hn::LoadU(FullTag(), values + i));
    most = hn::Max(most, hn::And(word, hn::Set(i32, 0x7fffffff)));
  }
  auto result = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(i32, most)));
  for (; i < size; ++i) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU;
    result = result < word ? word : result;
  }
  return result;
}

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

  static WEFT_LANES_ATTR void blocks(std::byte* encoded, const float* values, std::int64_t count,
                                     RandomKey random, BlockFormat format) {
    for (std::int64_t begin = 0; begin < count; begin += block_elements) {
      const std::uint64_t key = rounding == Rounding::stochastic
                                    ? mixed(random.key ^ static_cast<std::uint64_t>(random.first_block++))
                                    : 0;
      const std::int64_t length = count - begin < block_elements ? count - begin : block_elements;
      block(encoded, values + begin, static_cast<std::size_t>(length), key);
      encoded += block_bytes(format);
    }
  }
};

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

  static WEFT_LANES_ATTR void blocks(float* values, const std::byte* encoded, std::int64_t count,
                                     BlockFormat format) {
    for (std::int64_t begin = 0; begin < count; begin += block_elements) {
      const std::int64_t length = count - begin < block_elements ? count - begin : block_elements;
      block(values + begin, encoded, static_cast<std::size_t>(length));
      encoded += block_bytes(format);
    }
  }
};

template <class Format>
WEFT_LANES_ATTR void decode_as(BlockFormat format, Into into, float* values, const std::byte* encoded,
                               std::int64_t count) {
  if (into == Into::set) return Decode<Format, Into::set>::blocks(values, encoded, count, format);
  if (into == Into::add) return Decode<Format, Into::add>::blocks(values, encoded, count, format);
  return Decode<Format, Into::subtract>::blocks(values, encoded, count, format);
}

WEFT_LANES_ATTR void decode(BlockFormat format, Into into, float* values, const std::byte* encoded,
                            std::int64_t count) {
  switch (format) {
    case BlockFormat::f16:
      return decode_as<F16>(format, into, values, encoded, count);
    case BlockFormat::bf16:
      return decode_as<BF16>(format, into, values, encoded, count);
    case BlockFormat::e4m3:
      return decode_as<E4M3>(format, into, values, encoded, count);
    case BlockFormat::e5m2:
      return decode_as<E5M2>(format, into, values, encoded, count);
    case BlockFormat::i8:
      return decode_as<I8>(format, into, values, encoded, count);
    case BlockFormat::i16:
      return decode_as<I16>(format, into, values, encoded, count);
  }
}

template <class Format>
WEFT_LANES_ATTR void encode_small(BlockFormat format, Rounding rounding, std::byte* encoded,
                                  const float* values, std::int64_t count, RandomKey random) {
  if (rounding == Rounding::nearest)
    return Encode<Format, Rounding::nearest>::blocks(encoded, values, count, random, format);
  Encode<Format, Rounding::stochastic>::blocks(encoded, values, count, random, format);
}

WEFT_LANES_ATTR void encode(BlockFormat format, Rounding rounding, std::byte* encoded, const float* values,
                            std::int64_t count, RandomKey random) {
  switch (format) {
    case BlockFormat::f16:
      return Encode<F16, Rounding::nearest>::blocks(encoded, values, count, random, format);
    case BlockFormat::bf16:
      return Encode<BF16, Rounding::nearest>::blocks(encoded, values, count, random, format);
    case BlockFormat::e4m3:
      return encode_small<E4M3>(format, rounding, encoded, values, count, random);
    case BlockFormat::e5m2:
      return encode_small<E5M2>(format, rounding, encoded, values, count, random);
    case BlockFormat::i8:
      return encode_small<I8>(format, rounding, encoded, values, count, random);
    case BlockFormat::i16:
      return Encode<I16, Rounding::nearest>::blocks(encoded, values, count, random, format);
  }
}

}  // namespace
}  // namespace weft::detail::WEFT_LANES
