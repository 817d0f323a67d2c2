#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "compression/elias_fano.hpp"
#include "compression/fraction.hpp"
#include "weft/compression/codec.hpp"
#include "weft/core/recycled.hpp"

namespace weft {
namespace {

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

// The k-th largest magnitude: a histogram of the upper bits says which few words it is among.
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

// The values first, then their places.
class TopK final : public Codec {
 public:
  explicit TopK(double fraction) : fraction_(detail::checked_fraction("top-k", fraction)) {}

  std::string name() const override { return text("top-k:", fraction_); }
  Algebra algebra() const override { return Algebra::whole; }
  std::int64_t block() const override { return 1; }
  std::int64_t encoded_bytes(std::int64_t count) const override {
    const std::int64_t k = detail::kept_of(count, fraction_);
    return k == 0 ? 0 : k * static_cast<std::int64_t>(sizeof(float)) + detail::EliasFano(k, count).bytes();
  }
  Bound bound() const override { return {1, 0, 0}; }

 private:
  void do_encode(std::span<std::byte> code, std::span<const float> values, const Turn&) const override {
    const auto count = static_cast<std::int64_t>(values.size());
    const std::int64_t k = detail::kept_of(count, fraction_);
    const RecycledVector<std::int64_t> places = largest(values, k);
    std::byte* out = code.data();
    for (const std::int64_t place : places) {
      std::memcpy(out, &values[static_cast<std::size_t>(place)], sizeof(float));
      out += sizeof(float);
    }
    detail::EliasFano(k, count).encode(code.subspan(static_cast<std::size_t>(out - code.data())), places);
  }

  void do_decode(std::span<float> values, std::span<const std::byte> code, const Turn&,
                 Into into) const override {
    const auto count = static_cast<std::int64_t>(values.size());
    const std::int64_t k = detail::kept_of(count, fraction_);
    if (into == Into::set) std::ranges::fill(values, 0.0F);
    const auto places = code.subspan(static_cast<std::size_t>(k) * sizeof(float));
    detail::EliasFano(k, count).decode(places, [&](std::int64_t i, std::int64_t place) {
      float value = 0;
      std::memcpy(&value, &code[static_cast<std::size_t>(i) * sizeof(float)], sizeof(float));
      float& to = values[static_cast<std::size_t>(place)];
      to = into == Into::set ? value : into == Into::add ? to + value : to - value;
    });
  }

  double fraction_;
};

}  // namespace

std::shared_ptr<const Codec> top_k_codec(double fraction) {
  return std::make_shared<TopK>(fraction);
}

}  // namespace weft
