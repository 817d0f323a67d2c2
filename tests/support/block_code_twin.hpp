#pragma once
// The slow and obvious twin of the kernels of codecs by blocks: block after block, with the loops without vectors. And fake kernels for the fake CUDA
// that run it in the order of the fake's streams.

#include <atomic>
#include <bit>
#include <cstring>
#include <vector>

#include "compression/codecs/cuda/block_codes.hpp"
#include "support/fake_cuda.hpp"
#include "support/in_force.hpp"

namespace weft::test::block_twin {

using detail::BlockCodes;
using detail::BlockFormat;

struct Range {
  std::int64_t begin;
  std::int64_t end;
};
inline Range part(const BlockCodes& codes, std::int64_t rank) {
  return {std::min(codes.count, rank * codes.part), std::min(codes.count, (rank + 1) * codes.part)};
}
inline std::vector<float> errors(const BlockCodes& codes, std::int64_t at, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  if (codes.are_f32) {
    std::memcpy(values.data(), codes.errors + 4 * at, values.size() * 4);
  } else {
    detail::plain_block_kernel().decode(BlockFormat::i16, Into::set, values.data(),
                                        codes.errors + detail::bytes_of(BlockFormat::i16, at), count);
  }
  return values;
}
inline void keep(const BlockCodes& codes, std::int64_t at, const std::vector<float>& lost) {
  if (codes.are_f32) {
    std::memcpy(codes.kept + 4 * at, lost.data(), lost.size() * 4);
  } else {
    detail::plain_block_kernel().encode(BlockFormat::i16, Rounding::nearest,
                                        codes.kept + detail::bytes_of(BlockFormat::i16, at), lost.data(),
                                        static_cast<std::int64_t>(lost.size()), {});
  }
}
inline detail::RandomKey key(detail::RandomKey of, std::int64_t element) {
  return {of.key, of.first_block + element / detail::block_elements};
}
inline bool can_count(const float* values, std::int64_t count) {
  return detail::plain_block_kernel().largest(values, count) <= detail::largest_coded;
}

inline void encode_parts(const BlockCodes& codes, std::byte* out) {
  const auto& loops = detail::plain_block_kernel();
  const std::int64_t stride = detail::code_header_bytes + codes.part_bytes();
  bool good = true;
  for (int rank = 0; rank < codes.ranks; ++rank) {
    const auto [begin, end] = part(codes, rank);
    for (std::int64_t i = begin; i < end; i += detail::block_elements) {
      const std::int64_t count = std::min(detail::block_elements, end - i);
      std::vector<float> values(codes.gradient + i, codes.gradient + i + count);
      if (codes.errors != nullptr) {
        const auto more = errors(codes, codes.begin + i, count);
        for (std::size_t k = 0; k < values.size(); ++k) values[k] += more[k];
      }
      good = can_count(values.data(), count) && good;
      std::byte* const code =
          out + rank * stride + detail::code_header_bytes + detail::bytes_of(codes.form.format, i - begin);
      loops.encode(codes.form.format, codes.form.rounding, code, values.data(), count, key(codes.own, i));
      if (codes.errors == nullptr) continue;
      loops.decode(codes.form.format, Into::subtract, values.data(), code, count);
      std::ranges::copy(values, codes.gradient + i);
      if (rank != codes.rank) keep(codes, codes.begin + i, values);
    }
  }
  for (int rank = 0; rank < codes.ranks; ++rank) {
    std::memset(out + rank * stride, 0, detail::code_header_bytes);
    if (!good) out[rank * stride] = std::byte{1};
  }
}

inline void sum_mine(const BlockCodes& codes, const std::byte* in, std::byte* mean, float* mine,
                     std::int32_t* bad) {
  const auto& loops = detail::plain_block_kernel();
  const std::int64_t stride = detail::code_header_bytes + codes.part_bytes();
  for (int rank = 0; rank < codes.ranks; ++rank) {
    if (in[rank * stride] != std::byte{0}) std::atomic_ref(*bad).store(1);
  }
  const auto [begin, end] = part(codes, codes.rank);
  for (std::int64_t i = begin; i < end; i += detail::block_elements) {
    const std::int64_t count = std::min(detail::block_elements, end - i);
    const std::int64_t at = detail::bytes_of(codes.form.format, i - begin);
    std::vector<float> sum(static_cast<std::size_t>(count));
    std::vector<float> decoded(sum.size());
    for (int rank = 0; rank < codes.ranks; ++rank)
      loops.decode(codes.form.format, rank == 0 ? Into::set : Into::add, sum.data(),
                   in + rank * stride + detail::code_header_bytes + at, count);
    for (float& value : sum) value /= static_cast<float>(codes.ranks);
    loops.encode(codes.form.format, codes.form.rounding, mean + at, sum.data(), count, key(codes.means, i));
    loops.decode(codes.form.format, Into::set, decoded.data(), mean + at, count);
    if (codes.errors != nullptr) {
      std::vector<float> lost(codes.gradient + i, codes.gradient + i + count);
      for (std::size_t k = 0; k < lost.size(); ++k) {
        const float of_mean = static_cast<float>(codes.ranks) * (sum[k] - decoded[k]);
        lost[k] += of_mean;
      }
      keep(codes, codes.begin + i, lost);
    }
    if (mine != nullptr) std::ranges::copy(decoded, mine + (i - begin));
  }
}

inline void decode_means(const BlockCodes& codes, const std::byte* means) {
  for (int rank = 0; rank < codes.ranks; ++rank) {
    const auto [begin, end] = part(codes, rank);
    detail::plain_block_kernel().decode(codes.form.format, Into::set, codes.gradient + begin,
                                        means + rank * codes.part_bytes(), end - begin);
  }
}

class FakeKernels final : public detail::cuda::BlockCodeKernels {
 public:
  using Place = detail::cuda::Place;

  std::atomic<int> launches{0};

  void encode_parts(const BlockCodes& codes, std::byte* out, Place place) override {
    enqueue(place, [=] { block_twin::encode_parts(codes, out); });
  }
  void sum_mine(const BlockCodes& codes, const std::byte* in, std::byte* mean, float* mine, std::int32_t* bad,
                Place place) override {
    enqueue(place, [=] { block_twin::sum_mine(codes, in, mean, mine, bad); });
  }
  void decode_means(const BlockCodes& codes, const std::byte* means, Place place) override {
    enqueue(place, [=] { block_twin::decode_means(codes, means); });
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
