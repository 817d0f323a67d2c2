// The sparse codecs: top-k keeps the largest magnitudes, random-k a random choice.
//
// top-k makes four passes. A histogram of the upper 11 bits says which bin holds the k-th largest magnitude;
// the magnitudes of that bin are collected, and nth_element finds it among them; the magnitudes above it are
// counted; the places are collected. The result is k floats and then their places, in Elias-Fano coding.
//
// random-k cuts each range of 4096 elements into k parts whose sizes differ by one at most, from a random
// element on, and keeps one random element of each part. Over all first elements, each element has the same
// probability. The result is k floats per range; the places follow from seed and step.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "compression/codecs/block_kernel.hpp"
#include "compression/codecs/elias_fano.hpp"
#include "weft/compression/codec.hpp"
#include "weft/core/error.hpp"
#include "weft/core/recycled.hpp"

namespace weft {
namespace {

/// @returns the fraction. @throws Error (usage) that names the value, unless 0 < fraction <= 1
double checked_fraction(const char* codec, double fraction) {
  if (fraction > 0 && fraction <= 1) return fraction;
  throw Error(ErrorKind::usage, text(codec, " of a fraction of ", fraction, " of all elements"),
              "give more than 0 and at most 1");
}

std::int64_t kept_of(std::int64_t count, double fraction) {
  return std::min(count, static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(count))));
}

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

/// The k-th largest magnitude, as the bits of an f32.
std::uint32_t kth_largest(std::span<const float> values, std::int64_t k) {
  constexpr int shift = 20;
  std::array<std::int64_t, 1 << (31 - shift)> counts{};
  for (const float value : values) ++counts[magnitude(value) >> shift];
  std::size_t bin = counts.size() - 1;
  for (; counts[bin] < k; --bin) k -= counts[bin];
  RecycledVector<std::uint32_t> words;
  words.reserve(static_cast<std::size_t>(counts[bin]));
  for (const float value : values) {
    if (magnitude(value) >> shift == bin) words.push_back(magnitude(value));
  }
  const auto kth = words.begin() + (k - 1);
  std::ranges::nth_element(words, kth, std::ranges::greater());
  return *kth;
}

/// The places of the k largest magnitudes, ascending.
RecycledVector<std::int64_t> largest(std::span<const float> values, std::int64_t k) {
  const std::uint32_t least = kth_largest(values, k);
  const auto more = std::ranges::count_if(values, [&](float value) { return magnitude(value) > least; });
  std::int64_t equal = k - more;
  RecycledVector<std::int64_t> places;
  places.reserve(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t word = magnitude(values[i]);
    if (word > least || (word == least && equal-- > 0)) places.push_back(static_cast<std::int64_t>(i));
  }
  return places;
}

class TopK final : public Codec {
 public:
  explicit TopK(double fraction) : fraction_(checked_fraction("top-k", fraction)) {}

  std::string name() const override { return text("top-k:", fraction_); }
  Algebra algebra() const override { return Algebra::whole; }
  std::int64_t block() const override { return 1; }
  std::int64_t encoded_bytes(std::int64_t count) const override {
    const std::int64_t k = kept_of(count, fraction_);
    return k == 0 ? 0 : k * static_cast<std::int64_t>(sizeof(float)) + detail::EliasFano(k, count).bytes();
  }
  Bound bound() const override { return {1, 0, 0}; }

 private:
  void do_encode(std::span<std::byte> encoded, std::span<const float> values,
                 const CodingPosition&) const override {
    const auto count = static_cast<std::int64_t>(values.size());
    const std::int64_t k = kept_of(count, fraction_);
    const RecycledVector<std::int64_t> places = largest(values, k);
    std::byte* out = encoded.data();
    for (const std::int64_t place : places) {
      std::memcpy(out, &values[static_cast<std::size_t>(place)], sizeof(float));
      out += sizeof(float);
    }
    detail::EliasFano(k, count).encode(encoded.subspan(static_cast<std::size_t>(out - encoded.data())),
                                       places);
  }

  void do_decode(std::span<float> values, std::span<const std::byte> encoded, const CodingPosition&,
                 Into into) const override {
    const auto count = static_cast<std::int64_t>(values.size());
    const std::int64_t k = kept_of(count, fraction_);
    if (into == Into::set) std::ranges::fill(values, 0.0F);
    const auto places = encoded.subspan(static_cast<std::size_t>(k) * sizeof(float));
    detail::EliasFano(k, count).decode(places, [&](std::int64_t i, std::int64_t place) {
      float value = 0;
      std::memcpy(&value, &encoded[static_cast<std::size_t>(i) * sizeof(float)], sizeof(float));
      float& to = values[static_cast<std::size_t>(place)];
      to = into == Into::set ? value : into == Into::add ? to + value : to - value;
    });
  }

  double fraction_;
};

constexpr std::int64_t range = 4096;

/// A number below `limit` from 32 random bits.
std::int64_t below(std::int64_t limit, std::uint64_t word) {
  return static_cast<std::int64_t>(((word & 0xffffffffU) * static_cast<std::uint64_t>(limit)) >> 32U);
}

class RandomK final : public Codec {
 public:
  RandomK(double fraction, std::uint64_t seed)
      : fraction_(checked_fraction("random-k", fraction)), seed_(seed) {}

  std::string name() const override {
    return text("random-k:", fraction_) + (seed_ == 0 ? std::string() : text(" seed ", seed_));
  }
  Algebra algebra() const override { return Algebra::linear; }
  std::int64_t block() const override { return range; }
  std::int64_t encoded_bytes(std::int64_t count) const override {
    return (count / range * kept(range) + kept(count % range)) * static_cast<std::int64_t>(sizeof(float));
  }
  Bound bound() const override { return {1, 0, 0}; }

 private:
  std::int64_t kept(std::int64_t count) const { return kept_of(count, fraction_); }

  template <class Visit>
  void for_chosen(std::int64_t count, const CodingPosition& position, Visit visit) const {
    const std::uint64_t key = detail::mixed(detail::mixed(seed_) ^ position.step);
    std::size_t i = 0;
    for (std::int64_t begin = 0; begin < count; begin += range) {
      const std::int64_t length = std::min(range, count - begin);
      const std::int64_t parts = kept(length);
      std::uint64_t word = detail::mixed(key ^ static_cast<std::uint64_t>((position.begin + begin) / range));
      const std::int64_t first = below(length, word);
      for (std::int64_t part = 0; part < parts; ++part) {
        word = detail::mixed(word);
        const std::int64_t from = part * length / parts;
        const std::int64_t size = (part + 1) * length / parts - from;
        visit(i++, static_cast<std::size_t>(begin + (first + from + below(size, word)) % length));
      }
    }
  }

  void do_encode(std::span<std::byte> encoded, std::span<const float> values,
                 const CodingPosition& position) const override {
    for_chosen(static_cast<std::int64_t>(values.size()), position, [&](std::size_t i, std::size_t place) {
      std::memcpy(&encoded[i * sizeof(float)], &values[place], sizeof(float));
    });
  }

  void do_decode(std::span<float> values, std::span<const std::byte> encoded, const CodingPosition& position,
                 Into into) const override {
    if (into == Into::set) std::ranges::fill(values, 0.0F);
    for_chosen(static_cast<std::int64_t>(values.size()), position, [&](std::size_t i, std::size_t place) {
      float value = 0;
      std::memcpy(&value, &encoded[i * sizeof(float)], sizeof(float));
      float& to = values[place];
      to = into == Into::set ? value : into == Into::add ? to + value : to - value;
    });
  }

  double fraction_;
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<const Codec> top_k_codec(double fraction) {
  return std::make_shared<TopK>(fraction);
}

std::shared_ptr<const Codec> random_k_codec(double fraction, std::uint64_t seed) {
  return std::make_shared<RandomK>(fraction, seed);
}

}  // namespace weft
