// On a card: the kernels of codecs by blocks beside their slow twin, bit by bit.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "support/block_coding_twin.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"

namespace weft::test {
namespace {

using detail::BlockCoding;
using detail::BlockForm;
using detail::BlockFormat;

std::vector<float> drawn(std::int64_t count, unsigned seed, bool worse) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int range = i / 256 % 3 == 0 ? 30 : 236;  // of exponents, below 2^118: some leave subnormal codes
    const double magnitude =
        std::ldexp(1 + static_cast<double>(random()) * 0x1p-32,
                   static_cast<int>(random() % static_cast<unsigned>(range)) - range / 2);
    values[i] = static_cast<float>(random() % 2 == 0 ? magnitude : -magnitude);
    if (random() % 50 == 0) values[i] = 0;
    if (worse && random() % 700 == 0) values[i] = std::numeric_limits<float>::infinity();
  }
  return values;
}

/// What a step reads and writes, on the host.
struct Memory {
  std::vector<float> gradient{}, mine{};
  std::vector<std::byte> errors{}, kept{}, out{}, mean{};
  std::vector<std::int32_t> bad{0};

  template <class Visit>
  void each(Visit visit) {
    visit(gradient), visit(mine), visit(errors), visit(kept), visit(out), visit(mean), visit(bad);
  }
};

class CodesOnDevice : public testing::Test {
 protected:
  using Place = detail::cuda::Place;

  template <class T>
  T* on_device(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    Buffer& buffer = memory_.emplace_back(Buffer::on(Device::cuda(0), DataType::u8, std::ssize(bytes)));
    if (!bytes.empty()) copy(buffer.view(), host(values), stream_);
    return static_cast<T*>(buffer.view().data());
  }
  template <class T>
  static View host(const std::vector<T>& values) {
    return {const_cast<T*>(values.data()), static_cast<std::int64_t>(values.size() * sizeof(T)),
            DataType::u8};
  }

  /// Runs both, and compares everything that they may write.
  template <class OnHost, class OnCard>
  void expect_twins(const BlockCoding& coding, Memory memory, OnHost on_host, OnCard on_card,
                    const std::string& what) {
    Memory there = memory;
    BlockCoding here = coding;
    const auto point = [](BlockCoding& to, auto* gradient, auto* errors, auto* kept) {
      to.gradient = gradient;
      if (to.errors == nullptr) return;
      to.errors = errors;
      to.kept = kept;
    };
    here.errors = memory.errors.empty() ? nullptr : memory.errors.data();
    BlockCoding device = here;
    point(here, memory.gradient.data(), memory.errors.data(), memory.kept.data());
    on_host(here, memory);
    memory_.clear();
    auto* const gradient = on_device(there.gradient);
    auto* const mine = on_device(there.mine);
    auto* const errors = on_device(there.errors);
    auto* const kept = on_device(there.kept);
    auto* const out = on_device(there.out);
    auto* const mean = on_device(there.mean);
    auto* const bad = on_device(there.bad);
    point(device, gradient, errors, kept);
    stream_.run([&] { on_card(device, out, mean, mine, bad, detail::cuda::place_of(stream_)); });
    std::size_t at = 0;
    there.each([&](auto& values) {
      Buffer& from = memory_[at++];
      if (!values.empty()) copy(host(values), from.view(), stream_);
    });
    stream_.synchronize();
    expect_same(there.gradient, memory.gradient, what + ": gradients");
    expect_same(there.mine, memory.mine, what + ": decoded mean");
    if (coding.are_f32) {
      const auto floats = [](const std::vector<std::byte>& bytes) {
        std::vector<float> values(bytes.size() / sizeof(float));
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
      };
      expect_same(floats(there.kept), floats(memory.kept), what + ": errors");
    } else {
      EXPECT_EQ(there.kept, memory.kept) << what << ": errors";
    }
    EXPECT_EQ(there.out, memory.out) << what << ": codes";
    EXPECT_EQ(there.mean, memory.mean) << what << ": code of the mean";
    EXPECT_EQ(there.bad, memory.bad) << what;
  }

  static void expect_same(const std::vector<float>& one, const std::vector<float>& other,
                          const std::string& what) {
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (std::isnan(one[i]) && std::isnan(other[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(one[i]), std::bit_cast<std::uint32_t>(other[i]))
          << what << " differ at " << i;
    }
  }

  void try_all(const BlockForm& form, std::int64_t count, int ranks, int kept, bool worse);

  Stream stream_{Device::cuda(0)};
  std::vector<Buffer> memory_;
};

/// @param kept 0: no errors; 1: in 16 bits; 2: f32
void CodesOnDevice::try_all(const BlockForm& form, std::int64_t count, int ranks, int kept, bool worse) {
  const bool by_blocks = form.format != BlockFormat::bf16 || kept != 0;
  const std::int64_t unit = by_blocks ? detail::block_elements : 1;
  const std::int64_t part = ((count + unit - 1) / unit + ranks - 1) / ranks * unit;
  const std::int64_t begin = 512;
  const std::int64_t covered = begin + (count + 255) / 256 * 256;
  BlockCoding coding{.form = form,
                     .own = detail::random_key(form.seed, ranks - 1, 7, begin / 256),
                     .means = detail::random_key(form.seed, -1, 7, begin / 256),
                     .count = count,
                     .begin = begin,
                     .part = part,
                     .ranks = ranks,
                     .rank = ranks - 1,
                     .are_f32 = kept == 2};
  const auto bytes_of_errors =
      static_cast<std::size_t>(kept == 2 ? 4 * covered : detail::bytes_of(BlockFormat::i16, covered));
  Memory memory{.gradient = drawn(count, static_cast<unsigned>(count), worse),
                .mine = std::vector<float>(static_cast<std::size_t>(part), 1.0F)};
  memory.out.resize(static_cast<std::size_t>(ranks * (detail::part_header_bytes + coding.part_bytes())),
                    std::byte{9});
  memory.mean.resize(static_cast<std::size_t>(ranks * coding.part_bytes()), std::byte{9});
  if (kept != 0) {
    memory.errors.resize(bytes_of_errors);
    memory.kept.resize(bytes_of_errors, std::byte{9});
    const auto lost = drawn(covered, 3, false);
    if (kept == 2)
      std::memcpy(memory.errors.data(), lost.data(), bytes_of_errors);
    else
      detail::plain_block_kernel().encode(BlockFormat::i16, Rounding::nearest, memory.errors.data(),
                                          lost.data(), covered, {});
  }
  const std::string what =
      text("format ", static_cast<int>(form.format), ", rounding ", static_cast<int>(form.rounding), ", ",
           count, " elements, ", ranks, " ranks, errors ", kept);
  const auto kernels = detail::cuda::block_code_kernels();
  expect_twins(
      coding, memory,
      [](const BlockCoding& here, Memory& m) { block_twin::encode_parts(here, m.out.data()); },
      [&](const BlockCoding& there, std::byte* out, std::byte*, float*, std::int32_t*, Place place) {
        kernels->encode_parts(there, out, place);
      },
      what + ", encode_parts");
  // What ranks send: codes of other gradients.
  for (int rank = 0; rank < ranks; ++rank) {
    const auto mine = block_twin::part(coding, coding.rank);
    const auto values = drawn(mine.end - mine.begin, static_cast<unsigned>(100 + rank), worse);
    std::byte* const to = memory.out.data() + rank * (detail::part_header_bytes + coding.part_bytes());
    std::memset(to, worse && rank == 1 ? 1 : 0, detail::part_header_bytes);
    detail::plain_block_kernel().encode(form.format, Rounding::nearest, to + detail::part_header_bytes,
                                        values.data(), std::ssize(values), {});
  }
  expect_twins(
      coding, memory,
      [](const BlockCoding& here, Memory& m) {
        const auto in = m.out;
        block_twin::sum_mine(here, in.data(), m.mean.data(), m.mine.data(), m.bad.data());
      },
      [&](const BlockCoding& there, std::byte* in, std::byte* mean, float* mine, std::int32_t* bad,
          Place place) { kernels->sum_mine(there, in, mean, mine, bad, place); },
      what + ", sum_mine");
  for (int rank = 0; rank < ranks; ++rank) {
    const auto values = drawn(part, static_cast<unsigned>(200 + rank), worse);
    detail::plain_block_kernel().encode(form.format, Rounding::nearest,
                                        memory.mean.data() + rank * coding.part_bytes(), values.data(), part,
                                        {});
  }
  expect_twins(
      coding, memory,
      [](const BlockCoding& here, Memory& m) { block_twin::decode_means(here, m.mean.data()); },
      [&](const BlockCoding& there, std::byte*, std::byte* mean, float*, std::int32_t*, Place place) {
        kernels->decode_means(there, mean, place);
      },
      what + ", decode_means");
}

// One block, parts of one, ranks without a part, more blocks than a thread block has warps.
TEST_F(CodesOnDevice, EveryStepIsItsTwin) {
  const std::vector<BlockForm> forms{
      {BlockFormat::f16, Rounding::nearest, 0},     {BlockFormat::bf16, Rounding::nearest, 0},
      {BlockFormat::e4m3, Rounding::nearest, 0},    {BlockFormat::e4m3, Rounding::stochastic, 3},
      {BlockFormat::e5m2, Rounding::stochastic, 0}, {BlockFormat::i8, Rounding::nearest, 0},
      {BlockFormat::i8, Rounding::stochastic, 5},   {BlockFormat::e5m2, Rounding::nearest, 0},
      {BlockFormat::i4, Rounding::nearest, 0},      {BlockFormat::i4, Rounding::stochastic, 5},
      {BlockFormat::e2m1, Rounding::nearest, 0},    {BlockFormat::e2m1, Rounding::stochastic, 5}};
  for (const BlockForm& form : forms) {
    for (const std::int64_t count : {1, 256, 700, 5003}) {
      for (const int ranks : {1, 3}) {
        for (const int kept : {0, 1, 2}) {
          for (const bool worse : {false, true}) try_all(form, count, ranks, kept, worse);
        }
      }
    }
  }
}

TEST_F(CodesOnDevice, WhatCannotBeCodedIsFoundAndReported) {
  const auto kernels = detail::cuda::block_code_kernels();
  for (const std::int64_t count : {1, 255, 256, 10'000}) {
    for (const float last : {1.0F, 0x1p118F, 0x1.1p118F, std::numeric_limits<float>::quiet_NaN()}) {
      auto values = drawn(count, 1, false);
      values.back() = last;
      Buffer gradient = Buffer::on(Device::cuda(0), DataType::f32, count);
      copy(gradient.view(), ConstView(std::span(values)), stream_);
      std::vector<std::int32_t> found{0, 0};
      auto* const flags = on_device(found);
      stream_.run([&] {
        kernels->check(gradient.view(), flags, detail::cuda::place_of(stream_));
        kernels->report(flags, flags + 1, detail::cuda::place_of(stream_));
      });
      copy(host(found), memory_.back().view(), stream_);
      stream_.synchronize();
      const std::int32_t bad = last <= 0x1p118F ? 0 : 1;
      EXPECT_EQ(found, (std::vector{bad, bad})) << count << " elements, the last one " << last;
    }
  }
}

}  // namespace
}  // namespace weft::test
