#include <algorithm>
#include <cstring>

#include "compression/block_format.hpp"
#include "compression/fraction.hpp"
#include "weft/compression/codec.hpp"

namespace weft {
namespace {

constexpr std::int64_t range = 4096;

/// A number below `limit`, from 32 bits by chance.
std::int64_t below(std::int64_t limit, std::uint64_t word) {
  return static_cast<std::int64_t>(((word & 0xffffffffU) * static_cast<std::uint64_t>(limit)) >> 32U);
}

// A range is cut into k parts that differ by one element at most, from a random place on, and one element of
// each is kept: over all places, every element is with the same probability.
class RandomK final : public Codec {
 public:
  RandomK(double fraction, std::uint64_t seed)
      : fraction_(detail::checked_fraction("random-k", fraction)), seed_(seed) {}

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
  std::int64_t kept(std::int64_t count) const { return detail::kept_of(count, fraction_); }

  template <class Visit>
  void for_chosen(std::int64_t count, const Turn& turn, Visit visit) const {
    const std::uint64_t key = detail::mixed(detail::mixed(seed_) ^ turn.step);
    std::size_t i = 0;
    for (std::int64_t begin = 0; begin < count; begin += range) {
      const std::int64_t length = std::min(range, count - begin);
      const std::int64_t parts = kept(length);
      std::uint64_t word = detail::mixed(key ^ static_cast<std::uint64_t>((turn.begin + begin) / range));
      const std::int64_t first = below(length, word);
      for (std::int64_t part = 0; part < parts; ++part) {
        word = detail::mixed(word);
        const std::int64_t from = part * length / parts;
        const std::int64_t size = (part + 1) * length / parts - from;
        visit(i++, static_cast<std::size_t>(begin + (first + from + below(size, word)) % length));
      }
    }
  }

  void do_encode(std::span<std::byte> code, std::span<const float> values, const Turn& turn) const override {
    for_chosen(static_cast<std::int64_t>(values.size()), turn, [&](std::size_t i, std::size_t place) {
      std::memcpy(&code[i * sizeof(float)], &values[place], sizeof(float));
    });
  }

  void do_decode(std::span<float> values, std::span<const std::byte> code, const Turn& turn,
                 Into into) const override {
    if (into == Into::set) std::ranges::fill(values, 0.0F);
    for_chosen(static_cast<std::int64_t>(values.size()), turn, [&](std::size_t i, std::size_t place) {
      float value = 0;
      std::memcpy(&value, &code[i * sizeof(float)], sizeof(float));
      float& to = values[place];
      to = into == Into::set ? value : into == Into::add ? to + value : to - value;
    });
  }

  double fraction_;
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<const Codec> random_k_codec(double fraction, std::uint64_t seed) {
  return std::make_shared<RandomK>(fraction, seed);
}

}  // namespace weft
