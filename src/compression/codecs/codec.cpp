// The codecs by blocks (fp16, bf16, fp8, int8, int4, fp4), and the checks that all codecs share.
//
// A block codec adds to the kernel of block_kernel.hpp a name, an error bound, and the key of its random
// numbers: seed, rank and step make the key, and the number of the block in the flat space selects the
// numbers of a block.

#include "weft/compression/codec.hpp"

#include <algorithm>

#include "compression/codecs/block_kernel.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

using detail::BlockFormat;

class BlockCodec final : public Codec {
 public:
  BlockCodec(std::string name, BlockFormat format, Bound nearest, Rounding rounding = Rounding::nearest,
             std::uint64_t seed = 0)
      : name_(std::move(name)), format_(format), bound_(nearest), rounding_(rounding), seed_(seed) {
    if (rounding == Rounding::nearest) return;
    name_ += ":stochastic" + (seed == 0 ? std::string() : text(" seed ", seed));
    bound_ = {2 * nearest.of_element, 2 * nearest.of_block, 2 * nearest.absolute};
  }

  std::string name() const override { return name_; }
  Algebra algebra() const override { return Algebra::blockwise; }
  std::int64_t block() const override {
    return detail::scale_bytes(format_) == 0 ? 1 : detail::block_elements;
  }
  std::int64_t encoded_bytes(std::int64_t count) const override { return detail::bytes_of(format_, count); }
  Bound bound() const override { return bound_; }
  detail::BlockForm form() const { return {format_, rounding_, seed_}; }

 private:
  void do_encode(std::span<std::byte> encoded, std::span<const float> values,
                 const CodingPosition& position) const override {
    const detail::RandomKey random =
        detail::random_key(seed_, position.rank, position.step, position.begin / detail::block_elements);
    detail::block_kernel().encode(format_, rounding_, encoded.data(), values.data(),
                                  static_cast<std::int64_t>(values.size()), random);
  }
  void do_decode(std::span<float> values, std::span<const std::byte> encoded, const CodingPosition&,
                 Into into) const override {
    detail::block_kernel().decode(format_, into, values.data(), encoded.data(),
                                  static_cast<std::int64_t>(values.size()));
  }

  std::string name_;
  BlockFormat format_;
  Bound bound_;
  Rounding rounding_;
  std::uint64_t seed_;
};

}  // namespace

std::optional<detail::BlockForm> detail::block_form(const Codec& codec) {
  const auto* const blocks = dynamic_cast<const BlockCodec*>(&codec);
  return blocks == nullptr ? std::nullopt : std::optional(blocks->form());
}

double Bound::operator()(double element, double largest_of_block) const {
  return std::max({of_element * element, of_block * largest_of_block, absolute});
}

void Codec::encode(std::span<std::byte> encoded, std::span<const float> values,
                   const CodingPosition& position) const {
  expect(encoded.size(), values.size(), position);
  if (!values.empty()) do_encode(encoded, values, position);
}

void Codec::decode(std::span<float> values, std::span<const std::byte> encoded,
                   const CodingPosition& position, Into into) const {
  expect(encoded.size(), values.size(), position);
  if (!values.empty()) do_decode(values, encoded, position, into);
}

void Codec::expect(std::size_t encoded, std::size_t values, const CodingPosition& position) const {
  const std::int64_t bytes = encoded_bytes(static_cast<std::int64_t>(values));
  if (static_cast<std::int64_t>(encoded) != bytes) {
    throw Error(ErrorKind::usage, text(encoded, " bytes for the ", name(), " encoded of ", values,
                                       " elements, which are ", bytes));
  }
  if (position.begin % block() != 0) {
    throw Error(ErrorKind::usage, text(name(), " encoded from element ", position.begin),
                text("begin at a multiple of ", block()));
  }
}

std::shared_ptr<const Codec> fp16_codec() {
  return std::make_shared<BlockCodec>("fp16", BlockFormat::f16, Bound{0x1p-11, 0x1p-39, 0});
}

std::shared_ptr<const Codec> bf16_codec() {
  return std::make_shared<BlockCodec>("bf16", BlockFormat::bf16, Bound{0x1p-8, 0, 0x1p-134});
}

std::shared_ptr<const Codec> fp8_codec(Fp8 format, Rounding rounding, std::uint64_t seed) {
  if (format == Fp8::e4m3)
    return std::make_shared<BlockCodec>("fp8-e4m3", BlockFormat::e4m3, Bound{0x1p-4, 0x1p-17, 0}, rounding,
                                        seed);
  return std::make_shared<BlockCodec>("fp8-e5m2", BlockFormat::e5m2, Bound{0x1p-3, 0x1p-31, 0}, rounding,
                                      seed);
}

std::shared_ptr<const Codec> int8_codec(Rounding rounding, std::uint64_t seed) {
  return std::make_shared<BlockCodec>("int8", BlockFormat::i8, Bound{0, 1.0 / 127, 0x1p-143}, rounding, seed);
}

// A scale is up to 2^-7 above the largest magnitude divided by 7 or 6, and at least 2^-126. int4 is off by half a scale at most. fp4 is off by half of
// what is between two of its numbers: a quarter of the lower one at most, or of the scale below that.
std::shared_ptr<const Codec> int4_codec(Rounding rounding, std::uint64_t seed) {
  return std::make_shared<BlockCodec>("int4", BlockFormat::i4, Bound{0, 1.0 / 13, 0x1p-127}, rounding, seed);
}

std::shared_ptr<const Codec> fp4_codec(Rounding rounding, std::uint64_t seed) {
  return std::make_shared<BlockCodec>("fp4", BlockFormat::e2m1, Bound{0.2501, 1.0 / 23, 0x1p-128}, rounding,
                                      seed);
}

}  // namespace weft
