#pragma once
// The slow and obvious twin of the kernels of codecs by blocks: block after block, with the loops without
// vectors. And fake kernels for the fake CUDA that run it in the order of the fake's streams.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

#include "compression/codecs/cuda/block_coding.hpp"
#include "support/fake_cuda.hpp"
#include "support/in_force.hpp"

namespace weft::test::block_twin {

using detail::BlockCoding;
using detail::BlockFormat;

struct Range {
  std::int64_t begin;
  std::int64_t end;
};
inline Range part(const BlockCoding& coding, std::int64_t rank) {
  return {std::min(coding.count, rank * coding.part), std::min(coding.count, (rank + 1) * coding.part)};
}
inline std::vector<float> errors(const BlockCoding& coding, std::int64_t at, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  if (coding.are_f32) {
    std::memcpy(values.data(), coding.errors + 4 * at, values.size() * 4);
  } else {
    detail::plain_block_kernel().decode(BlockFormat::i16, Into::set, values.data(),
                                        coding.errors + detail::bytes_of(BlockFormat::i16, at), count);
  }
  return values;
}
inline void keep(const BlockCoding& coding, std::int64_t at, const std::vector<float>& lost) {
  if (coding.are_f32) {
    std::memcpy(coding.kept + 4 * at, lost.data(), lost.size() * 4);
  } else {
    detail::plain_block_kernel().encode(BlockFormat::i16, Rounding::nearest,
                                        coding.kept + detail::bytes_of(BlockFormat::i16, at), lost.data(),
                                        static_cast<std::int64_t>(lost.size()), {});
  }
}
inline detail::RandomKey key(detail::RandomKey of, std::int64_t element) {
  return {of.key, of.first_block + element / detail::block_elements};
}
inline bool can_count(const float* values, std::int64_t count) {
  return detail::plain_block_kernel().largest(values, count) <= detail::largest_coded;
}

inline void encode_parts(const BlockCoding& coding, std::byte* out) {
  const auto& loops = detail::plain_block_kernel();
  const std::int64_t stride = detail::part_header_bytes + coding.part_bytes();
  bool good = true;
  for (int rank = 0; rank < coding.ranks; ++rank) {
    const auto [begin, end] = part(coding, rank);
    for (std::int64_t i = begin; i < end; i += detail::block_elements) {
      const std::int64_t count = std::min(detail::block_elements, end - i);
      std::vector<float> values(coding.gradient + i, coding.gradient + i + count);
      if (coding.errors != nullptr) {
        const auto more = errors(coding, coding.begin + i, count);
        for (std::size_t k = 0; k < values.size(); ++k) values[k] += more[k];
      }
      good = can_count(values.data(), count) && good;
      std::byte* const code =
          out + rank * stride + detail::part_header_bytes + detail::bytes_of(coding.form.format, i - begin);
      loops.encode(coding.form.format, coding.form.rounding, code, values.data(), count, key(coding.own, i));
      if (coding.errors == nullptr) continue;
      loops.decode(coding.form.format, Into::subtract, values.data(), code, count);
      std::ranges::copy(values, coding.gradient + i);
      if (rank != coding.rank) keep(coding, coding.begin + i, values);
    }
  }
  for (int rank = 0; rank < coding.ranks; ++rank) {
    std::memset(out + rank * stride, 0, detail::part_header_bytes);
    if (!good) out[rank * stride] = std::byte{1};
  }
}

inline void sum_mine(const BlockCoding& coding, const std::byte* in, std::byte* mean, float* mine,
                     std::int32_t* bad) {
  const auto& loops = detail::plain_block_kernel();
  const std::int64_t stride = detail::part_header_bytes + coding.part_bytes();
  for (int rank = 0; rank < coding.ranks; ++rank) {
    if (in[rank * stride] != std::byte{0}) std::atomic_ref(*bad).store(1);
  }
  const auto [begin, end] = part(coding, coding.rank);
  for (std::int64_t i = begin; i < end; i += detail::block_elements) {
    const std::int64_t count = std::min(detail::block_elements, end - i);
    const std::int64_t at = detail::bytes_of(coding.form.format, i - begin);
    std::vector<float> sum(static_cast<std::size_t>(count));
    std::vector<float> decoded(sum.size());
    for (int rank = 0; rank < coding.ranks; ++rank)
      loops.decode(coding.form.format, rank == 0 ? Into::set : Into::add, sum.data(),
                   in + rank * stride + detail::part_header_bytes + at, count);
    for (float& value : sum) value /= static_cast<float>(coding.ranks);
    loops.encode(coding.form.format, coding.form.rounding, mean + at, sum.data(), count,
                 key(coding.means, i));
    loops.decode(coding.form.format, Into::set, decoded.data(), mean + at, count);
    if (coding.errors != nullptr) {
      std::vector<float> lost(coding.gradient + i, coding.gradient + i + count);
      for (std::size_t k = 0; k < lost.size(); ++k) {
        const float of_mean = static_cast<float>(coding.ranks) * (sum[k] - decoded[k]);
        lost[k] += of_mean;
      }
      keep(coding, coding.begin + i, lost);
    }
    if (mine != nullptr) std::ranges::copy(decoded, mine + (i - begin));
  }
}

inline void decode_means(const BlockCoding& coding, const std::byte* means) {
  for (int rank = 0; rank < coding.ranks; ++rank) {
    const auto [begin, end] = part(coding, rank);
    detail::plain_block_kernel().decode(coding.form.format, Into::set, coding.gradient + begin,
                                        means + rank * coding.part_bytes(), end - begin);
  }
}

class FakeKernels final : public detail::cuda::BlockCodecKernels {
 public:
  using Place = detail::cuda::Place;

  std::atomic<int> launches{0};

  void encode_parts(const BlockCoding& coding, std::byte* out, Place place) override {
    enqueue(place, [=] { block_twin::encode_parts(coding, out); });
  }
  void sum_mine(const BlockCoding& coding, const std::byte* in, std::byte* mean, float* mine,
                std::int32_t* bad, Place place) override {
    enqueue(place, [=] { block_twin::sum_mine(coding, in, mean, mine, bad); });
  }
  void decode_means(const BlockCoding& coding, const std::byte* means, Place place) override {
    enqueue(place, [=] { block_twin::decode_means(coding, means); });
  }
  void check(ConstView gradient, std::int32_t* bad, Place place) override {
    enqueue(place, [=] {
      if (!can_count(static_cast<const float*>(gradient.data()), gradient.count())) *bad = 1;
    });
  }
  void report(const std::int32_t* any, std::int32_t* bad, Place place) override {
    enqueue(place, [=] {
      if (*any != 0) std::atomic_ref(*bad).store(1);
    });
  }

 private:
  template <class Work>
  void enqueue(Place place, Work work) {
    ++launches;
    FakeCuda::enqueue(place.stream, std::move(work));
  }
};

using WithFakeKernels = InForce<FakeKernels, detail::cuda::replace_block_code_kernels>;

}  // namespace weft::test::block_twin
