// The kernels of codecs by blocks. A warp takes a block of 256 elements, 8 of each lane: element i is in lane
// i % 32. It finds the largest magnitude with 5 exchanges; the rest of a block is each lane's own. Numbers
// are coded by the host's own source, compiled for threads (block_numbers-inl.hpp). An encoded block of 257
// or 513 bytes begins anywhere, so its words are moved byte by byte: lanes side by side. In 4 bits, each 64 elements have a largest magnitude
// of their own: two of each lane.
//
// Bytes: encode_parts reads 4 an element and writes the encoded parts; with errors it also reads and writes
// those and writes 4. sum_mine reads what all ranks encoded of a part. decode_means reads an encoded part and
// writes 4.

#include <algorithm>
#include <type_traits>

#include "compression/codecs/cuda/block_coding_launch.hpp"
#include "core/cuda/launch.cuh"

#define WEFT_LANES cuda_block_lanes
#define WEFT_LANES_ATTR __device__
#define WEFT_LANES_F16 0
#define WEFT_LANES_ONE 1
#define WEFT_LANES_SUM(a, b) __fadd_rn(a, b)
#define WEFT_LANES_PRODUCT(a, b) __fmul_rn(a, b)
// clang-format off
#include "compression/codecs/one_lane-inl.hpp"
#include "compression/codecs/block_numbers-inl.hpp"
// clang-format on

namespace weft::detail::cuda::kernels {
namespace {

using namespace cuda_block_lanes;

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr std::int64_t most_blocks = 2112;  // 16 on each of 132 multiprocessors; warps then stride on
constexpr int own = static_cast<int>(block_elements) / 32;

/// A lane's elements of a block; 0 beyond its end.
struct Elements {
  float at[own];
};

/// Calls f(k, i) for the lane's k-th element, which is the block's i-th.
template <class Function>
__device__ void for_own(int length, Function f) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int k = 0; k < own; ++k) {
    if (lane + 32 * k < length) f(k, lane + 32 * k);
  }
}

__device__ Elements loaded(const float* from, int length) {
  Elements result{};
  for_own(length, [&](int k, int i) { result.at[k] = from[i]; });
  return result;
}
__device__ void stored(const Elements& from, float* to, int length) {
  for_own(length, [&](int k, int i) { to[i] = from.at[k]; });
}

/// Of the lanes' elements from the begin-th to the one before the end-th.
template <int begin = 0, int end = own>
__device__ std::uint32_t largest_of(const Elements& values) {
  std::uint32_t most = 0;
#pragma unroll
  for (int k = begin; k < end; ++k) {
    const std::uint32_t word = __float_as_uint(values.at[k]) & 0x7fffffffU;
    most = word > most ? word : most;
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xffffffffU, most, distance);
    most = other > most ? other : most;
  }
  return most;
}

__device__ float scaled(float value, SplitPower scale) {
  return __fmul_rn(__fmul_rn(value, scale.first), scale.second);
}

/// Calls f(std::integral_constant<int, k>()) for each 64 elements of a block that begin below its `length`; they are the lane's k-th and the one after.
template <int k = 0, class Function>
__device__ void for_each_64(int length, Function f) {
  if constexpr (k < own) {
    if (32 * k >= length) return;
    f(std::integral_constant<int, k>());
    for_each_64<k + 2>(length, f);
  }
}
__device__ std::byte* of_64(std::byte* encoded, int k) {
  return encoded + k / 2 * four_bit_bytes;
}
__device__ const std::byte* of_64(const std::byte* encoded, int k) {
  return encoded + k / 2 * four_bit_bytes;
}

/// Encodes a block in 4 bits; a lane's elements become their decoded values. Lanes side by side make a byte, which the even one stores.
template <class Format, Rounding rounding>
__device__ void encode_four_bit(std::byte* encoded, Elements& values, std::uint64_t key, int length) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const RandomBits random(key);
  for_each_64(length, [&](auto first) {
    std::byte* const to = of_64(encoded, first);
    const std::uint16_t scale = four_bit_scale(largest_of<first, first + 2>(values), Format::top);
    if (lane < four_bit_scale_bytes) to[lane] = static_cast<std::byte>(scale >> (8 * lane));
    const bool is_nan = scale == nan_scale;
    const float up = four_bit_factor(scale);
    const float down = __fdiv_rn(1.0F, up);
#pragma unroll
    for (int k = first; k < first + 2; ++k) {
      const int i = lane + 32 * k;
      const OneTag d;
      std::uint32_t code = 0;
      if (!is_nan && i < length) {
        code = Format::template narrow<rounding, 1>(d, __fmul_rn(values.at[k], down), random,
                                                    static_cast<std::size_t>(i));
      }
      const std::uint32_t beside = __shfl_xor_sync(0xffffffffU, code, 1);
      if (lane % 2 == 0 && i < length)
        to[four_bit_scale_bytes + (i % four_bit_elements) / 2] = static_cast<std::byte>(code | beside << 4U);
      if (i < length)
        values.at[k] = is_nan ? __uint_as_float(0x7fc00000U) : __fmul_rn(Format::Code::widen(d, code), up);
    }
  });
}

template <class Format>
__device__ Elements decode_four_bit(const std::byte* encoded, int length) {
  Elements result{};
  for_own(length, [&](int k, int i) {
    const std::byte* const from = of_64(encoded, k);
    const auto scale =
        static_cast<std::uint16_t>(static_cast<unsigned>(from[0]) | static_cast<unsigned>(from[1]) << 8U);
    const auto pair = static_cast<std::uint32_t>(from[four_bit_scale_bytes + (i % four_bit_elements) / 2]);
    const float value = Format::Code::widen(OneTag(), i % 2 == 0 ? pair & 15U : pair >> 4U);
    result.at[k] =
        scale == nan_scale ? __uint_as_float(0x7fc00000U) : __fmul_rn(value, four_bit_factor(scale));
  });
  return result;
}

/// Encodes a block; a lane's elements become their decoded values.
template <class Format, Rounding rounding>
__device__ void encode_whole(std::byte* encoded, Elements& values, std::uint32_t largest, std::uint64_t key,
                             int length) {
  using T = typename Format::T;
  SplitPower down{1.0F, 1.0F};
  SplitPower up{1.0F, 1.0F};
  bool is_nan = false;
  if constexpr (Format::has_scale) {
    const std::uint8_t byte = scale_of(largest, Format::carry);
    if (threadIdx.x % 32 == 0) *encoded = static_cast<std::byte>(byte);
    ++encoded;
    is_nan = byte == nan_block;
    if (!is_nan) {
      down = factors_of(Format::top - (byte + lowest_exponent));
      up = factors_of(byte + lowest_exponent - Format::top);
    }
  }
  const RandomBits random(key);
  for_own(length, [&](int k, int i) {
    T word{};
    float decoded = __uint_as_float(0x7fc00000U);
    if (!is_nan) {
      const OneTag d;
      float value = values.at[k];
      if constexpr (Format::has_scale) value = scaled(value, down);
      if constexpr (rounding == Rounding::stochastic) {
        Format::store(d, value, &word, random.at(d, static_cast<std::size_t>(i)));
      } else {
        Format::store(d, value, &word);
      }
      decoded = Format::load(d, &word);
      if constexpr (Format::has_scale) decoded = scaled(decoded, up);
    }
    for (unsigned b = 0; b < sizeof(T); ++b)
      encoded[i * sizeof(T) + b] = static_cast<std::byte>(word >> (8 * b));
    values.at[k] = decoded;
  });
}

template <class Format>
__device__ Elements decode_whole(const std::byte* encoded, int length) {
  using T = typename Format::T;
  SplitPower up{1.0F, 1.0F};
  bool is_nan = false;
  if constexpr (Format::has_scale) {
    const auto byte = static_cast<std::uint8_t>(*encoded++);
    is_nan = byte == nan_block;
    if (!is_nan) up = factors_of(byte + lowest_exponent - Format::top);
  }
  Elements result{};
  for_own(length, [&](int k, int i) {
    unsigned bits = 0;
    for (unsigned b = 0; b < sizeof(T); ++b)
      bits |= static_cast<unsigned>(encoded[i * sizeof(T) + b]) << (8 * b);
    const T word = static_cast<T>(bits);
    float value = Format::load(OneTag(), &word);
    if constexpr (Format::has_scale) value = scaled(value, up);
    result.at[k] = is_nan ? __uint_as_float(0x7fc00000U) : value;
  });
  return result;
}

template <class Format, Rounding rounding>
__device__ void encode(std::byte* encoded, Elements& values, std::uint32_t largest, std::uint64_t key,
                       int length) {
  if constexpr (Format::is_four_bit) {
    encode_four_bit<Format, rounding>(encoded, values, key, length);
  } else {
    encode_whole<Format, rounding>(encoded, values, largest, key, length);
  }
}
template <class Format>
__device__ Elements decode(const std::byte* encoded, int length) {
  if constexpr (Format::is_four_bit) {
    return decode_four_bit<Format>(encoded, length);
  } else {
    return decode_whole<Format>(encoded, length);
  }
}

/// Calls visit(i, length) for the blocks of `count` elements that are this warp's: the block begins at element i.
template <class Visit>
__device__ void for_blocks(std::int64_t count, Visit visit) {
  const std::int64_t stride = std::int64_t{gridDim.x} * warps * block_elements;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * warps + threadIdx.x / 32) * block_elements; i < count;
       i += stride)
    visit(i, static_cast<int>(count - i < block_elements ? count - i : block_elements));
}

/// Where element i's block of errors is.
__device__ std::int64_t errors_at(const BlockCoding& coding, std::int64_t i) {
  return coding.are_f32 ? (coding.begin + i) * static_cast<std::int64_t>(sizeof(float))
                        : bytes_of(BlockFormat::i16, coding.begin + i);
}
__device__ void add_errors(const BlockCoding& coding, std::int64_t i, Elements& values, int length) {
  const std::byte* from = coding.errors + errors_at(coding, i);
  const Elements errors =
      coding.are_f32 ? loaded(reinterpret_cast<const float*>(from), length) : decode<I16>(from, length);
#pragma unroll
  for (int k = 0; k < own; ++k) values.at[k] = __fadd_rn(values.at[k], errors.at[k]);
}
__device__ void keep_errors(const BlockCoding& coding, std::int64_t i, Elements lost, int length) {
  std::byte* to = coding.kept + errors_at(coding, i);
  if (coding.are_f32) return stored(lost, reinterpret_cast<float*>(to), length);
  encode<I16, Rounding::nearest>(to, lost, largest_of(lost), 0, length);
}

__device__ std::uint64_t key_of(const RandomKey& random, std::int64_t i) {
  return mixed(random.key ^ static_cast<std::uint64_t>(random.first_block + i / block_elements));
}

__device__ std::int64_t part_begin(const BlockCoding& coding, std::int64_t rank) {
  return coding.count < rank * coding.part ? coding.count : rank * coding.part;
}

/// One thread a rank.
__global__ void clear_headers_kernel(std::byte* out, std::int64_t stride, int ranks) {
  for (int rank = static_cast<int>(threadIdx.x); rank < ranks; rank += threads) {
    for (std::int64_t b = 0; b < part_header_bytes; ++b) out[rank * stride + b] = std::byte{0};
  }
}

/// Row y of thread blocks encodes part y.
template <class Format, Rounding rounding>
__global__ void encode_parts_kernel(const __grid_constant__ BlockCoding coding, std::byte* out) {
  const int part = static_cast<int>(blockIdx.y);
  const std::int64_t begin = part_begin(coding, part);
  const std::int64_t part_bytes = bytes_of(coding.form.format, coding.part);
  std::byte* const encoded = out + part * (part_header_bytes + part_bytes) + part_header_bytes;
  for_blocks(part_begin(coding, part + 1) - begin, [&](std::int64_t i, int length) {
    float* const gradient = coding.gradient + begin + i;
    Elements values = loaded(gradient, length);
    if (coding.errors != nullptr) add_errors(coding, begin + i, values, length);
    const std::uint32_t largest = largest_of(values);
    Elements decoded = values;
    encode<Format, rounding>(encoded + bytes_of(coding.form.format, i), decoded, largest,
                             key_of(coding.own, begin + i), length);
    if (largest > largest_coded && threadIdx.x % 32 == 0) {
      for (int rank = 0; rank < coding.ranks; ++rank)
        *reinterpret_cast<volatile std::uint8_t*>(out + rank * (part_header_bytes + part_bytes)) = 1;
    }
    if (coding.errors == nullptr) return;
#pragma unroll
    for (int k = 0; k < own; ++k) values.at[k] = __fadd_rn(values.at[k], -decoded.at[k]);
    stored(values, gradient, length);
    if (part != coding.rank) keep_errors(coding, begin + i, values, length);
  });
}

template <class Format, Rounding rounding>
__global__ void sum_mine_kernel(const __grid_constant__ BlockCoding coding, const std::byte* in,
                                std::byte* mean, float* mine, std::int32_t* bad) {
  const std::int64_t stride = part_header_bytes + bytes_of(coding.form.format, coding.part);
  if (blockIdx.x == 0) {
    for (int rank = static_cast<int>(threadIdx.x); rank < coding.ranks; rank += threads) {
      if (in[rank * stride] != std::byte{0}) *static_cast<volatile std::int32_t*>(bad) = 1;
    }
  }
  const std::int64_t begin = part_begin(coding, coding.rank);
  const auto ranks = static_cast<float>(coding.ranks);
  for_blocks(part_begin(coding, coding.rank + 1) - begin, [&](std::int64_t i, int length) {
    const std::int64_t at = bytes_of(coding.form.format, i);
    Elements sum = decode<Format>(in + part_header_bytes + at, length);
    for (int rank = 1; rank < coding.ranks; ++rank) {
      const Elements one = decode<Format>(in + rank * stride + part_header_bytes + at, length);
#pragma unroll
      for (int k = 0; k < own; ++k) sum.at[k] = __fadd_rn(sum.at[k], one.at[k]);
    }
#pragma unroll
    for (int k = 0; k < own; ++k) sum.at[k] = __fdiv_rn(sum.at[k], ranks);
    Elements decoded = sum;
    encode<Format, rounding>(mean + at, decoded, largest_of(sum), key_of(coding.means, begin + i), length);
    if (coding.errors != nullptr) {
      Elements lost = loaded(coding.gradient + begin + i, length);
#pragma unroll
      for (int k = 0; k < own; ++k)
        lost.at[k] = __fadd_rn(lost.at[k], __fmul_rn(ranks, __fadd_rn(sum.at[k], -decoded.at[k])));
      keep_errors(coding, begin + i, lost, length);
    }
    if (mine != nullptr) stored(decoded, mine + i, length);
  });
}

/// Row y of thread blocks decodes part y.
template <class Format>
__global__ void decode_means_kernel(const __grid_constant__ BlockCoding coding, const std::byte* means) {
  const auto part = static_cast<std::int64_t>(blockIdx.y);
  const std::int64_t begin = part_begin(coding, part);
  const std::byte* const encoded = means + part * bytes_of(coding.form.format, coding.part);
  for_blocks(part_begin(coding, part + 1) - begin, [&](std::int64_t i, int length) {
    stored(decode<Format>(encoded + bytes_of(coding.form.format, i), length), coding.gradient + begin + i,
           length);
  });
}

__global__ void check_coded_kernel(const float* values, std::int64_t count, std::int32_t* bad) {
  for_blocks(count, [&](std::int64_t i, int length) {
    if (largest_of(loaded(values + i, length)) > largest_coded && threadIdx.x % 32 == 0)
      *static_cast<volatile std::int32_t*>(bad) = 1;
  });
}

__global__ void report_kernel(const std::int32_t* any, std::int32_t* bad) {
  if (*any != 0) *bad = 1;
}

unsigned blocks_for(std::int64_t elements, std::int64_t rows = 1) {
  constexpr std::int64_t together = warps * block_elements;
  return static_cast<unsigned>(std::clamp<std::int64_t>((elements + together - 1) / together, 1,
                                                        std::max<std::int64_t>(most_blocks / rows, 1)));
}

/// Calls function(format, rounding), each as a type.
template <Rounding rounding>
using RoundingType = std::integral_constant<Rounding, rounding>;
template <class Function>
cudaError_t with(BlockForm form, Function function) {
  const auto with_rounding = [&]<class Format>(std::type_identity<Format> format) {
    if (form.rounding == Rounding::stochastic) return function(format, RoundingType<Rounding::stochastic>());
    return function(format, RoundingType<Rounding::nearest>());
  };
  switch (form.format) {
    case BlockFormat::f16:
      return function(std::type_identity<F16>(), RoundingType<Rounding::nearest>());
    case BlockFormat::bf16:
      return function(std::type_identity<BF16>(), RoundingType<Rounding::nearest>());
    case BlockFormat::e4m3:
      return with_rounding(std::type_identity<E4M3>());
    case BlockFormat::e5m2:
      return with_rounding(std::type_identity<E5M2>());
    case BlockFormat::i8:
      return with_rounding(std::type_identity<I8>());
    case BlockFormat::i4:
      return with_rounding(std::type_identity<I4>());
    case BlockFormat::e2m1:
      return with_rounding(std::type_identity<E2M1>());
    case BlockFormat::i16:
      break;  // of errors, which do not travel
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t encode_parts(const BlockCoding& coding, std::byte* out, cudaStream_t stream) {
  const std::int64_t stride = part_header_bytes + coding.part_bytes();
  const cudaError_t cleared = launch(clear_headers_kernel, 1, threads, stream, out, stride, coding.ranks);
  if (cleared != cudaSuccess) return cleared;
  return with(
      coding.form, [&]<class Format, Rounding rounding>(std::type_identity<Format>, RoundingType<rounding>) {
        return launch(encode_parts_kernel<Format, rounding>,
                      dim3(blocks_for(coding.part, coding.ranks), static_cast<unsigned>(coding.ranks)),
                      threads, stream, coding, out);
      });
}

cudaError_t sum_mine(const BlockCoding& coding, const std::byte* in, std::byte* mean, float* mine,
                     std::int32_t* bad, cudaStream_t stream) {
  return with(coding.form,
              [&]<class Format, Rounding rounding>(std::type_identity<Format>, RoundingType<rounding>) {
                return launch(sum_mine_kernel<Format, rounding>, blocks_for(coding.part), threads, stream,
                              coding, in, mean, mine, bad);
              });
}

cudaError_t decode_means(const BlockCoding& coding, const std::byte* means, cudaStream_t stream) {
  return with(
      coding.form, [&]<class Format, Rounding rounding>(std::type_identity<Format>, RoundingType<rounding>) {
        return launch(decode_means_kernel<Format>,
                      dim3(blocks_for(coding.part, coding.ranks), static_cast<unsigned>(coding.ranks)),
                      threads, stream, coding, means);
      });
}

cudaError_t check_coded(ConstView gradient, std::int32_t* bad, cudaStream_t stream) {
  return launch(check_coded_kernel, blocks_for(gradient.count()), threads, stream,
                static_cast<const float*>(gradient.data()), gradient.count(), bad);
}

cudaError_t report(const std::int32_t* any, std::int32_t* bad, cudaStream_t stream) {
  return launch(report_kernel, 1, 1, stream, any, bad);
}

}  // namespace weft::detail::cuda::kernels
