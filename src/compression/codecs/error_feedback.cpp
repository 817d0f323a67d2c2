// The two copies of the errors: step reads one, keep() writes the other, commit() swaps them. In 16 bits a
// block of 256 errors is a block of i16 (block_kernel.hpp): 2 bytes an element and one for the scale.

#include "weft/compression/error_feedback.hpp"

#include <algorithm>
#include <cstring>

#include "compression/codecs/block_kernel.hpp"
#include "core/base/round_up.hpp"
#include "core/memory/copy_now.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"

namespace weft {

using detail::BlockFormat;

ErrorFeedback::ErrorFeedback(std::shared_ptr<const Codec> codec, KeptAs kept)
    : codec_(std::move(codec)), kept_(kept) {
  if (kept == KeptAs::nothing)
    throw Error(ErrorKind::usage, text("error feedback of ", codec_->name(), " that keeps nothing"),
                "use the codec itself, or keep 16 bits");
}

void ErrorFeedback::cover(std::int64_t elements, Device device) {
  elements = detail::round_up(elements, block);
  if (elements <= elements_) return;
  Stream stream(device);
  for (Buffer& errors : errors_) {
    Buffer more = Buffer::on(device, DataType::u8, bytes(elements));
    if (elements_ > 0) {
      copy(more.view().slice(0, errors.count()), errors.view(), stream);
      stream.synchronize();
    }
    errors = std::move(more);
  }
  elements_ = elements;
}

ErrorFeedback::Places ErrorFeedback::places() {
  return {errors_[read_].view().bytes(), errors_[1 - read_].view().bytes(), kept_ == KeptAs::f32};
}

std::int64_t ErrorFeedback::bytes(std::int64_t elements) const {
  return kept_ == KeptAs::f32 ? elements * static_cast<std::int64_t>(sizeof(float))
                              : detail::bytes_of(BlockFormat::i16, elements);
}

bool ErrorFeedback::encode(std::span<std::byte> encoded, std::span<float> values,
                           const CodingPosition& position) const {
  add_to(values, position.begin);
  const auto count = static_cast<std::int64_t>(values.size());
  const bool good = detail::block_kernel().largest(values.data(), count) <= detail::largest_coded;
  codec_->encode(encoded, values, position);
  codec_->decode(values, encoded, position, Into::subtract);
  return good;
}

void ErrorFeedback::keep(std::span<const float> lost, std::int64_t begin) {
  std::byte* to = errors_[1 - read_].view().bytes() + offset(lost.size(), begin);
  if (kept_ == KeptAs::f32) {
    std::memcpy(to, lost.data(), lost.size_bytes());
  } else {
    detail::block_kernel().encode(BlockFormat::i16, Rounding::nearest, to, lost.data(),
                                  static_cast<std::int64_t>(lost.size()), {});
  }
}

std::vector<float> ErrorFeedback::saved() const {
  std::vector<float> all(static_cast<std::size_t>(elements_));
  Buffer here = Buffer::on_host(DataType::u8, errors_[read_].count(), Contents::any);
  detail::copy_now(here.view(), errors_[read_].view());
  if (kept_ == KeptAs::f32) {
    std::memcpy(all.data(), here.view().data(), here.size_bytes());
  } else {
    detail::block_kernel().decode(BlockFormat::i16, Into::set, all.data(), here.view().bytes(), elements_);
  }
  return all;
}

void ErrorFeedback::restore(std::span<const float> errors) {
  std::vector<float> all(static_cast<std::size_t>(elements_));
  std::ranges::copy(errors, all.begin());
  Buffer here = Buffer::on_host(DataType::u8, errors_[read_].count(), Contents::any);
  if (kept_ == KeptAs::f32) {
    std::memcpy(here.view().data(), all.data(), here.size_bytes());
  } else {
    detail::block_kernel().encode(BlockFormat::i16, Rounding::nearest, here.view().bytes(), all.data(),
                                  elements_, {});
  }
  detail::copy_now(errors_[read_].view(), here.view());
}

void ErrorFeedback::add_to(std::span<float> values, std::int64_t begin) const {
  const std::byte* from = errors_[read_].view().bytes() + offset(values.size(), begin);
  if (kept_ == KeptAs::f32) {
    const auto* errors = reinterpret_cast<const float*>(from);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += errors[i];
  } else {
    detail::block_kernel().decode(BlockFormat::i16, Into::add, values.data(), from,
                                  static_cast<std::int64_t>(values.size()));
  }
}

std::size_t ErrorFeedback::offset(std::size_t count, std::int64_t begin) const {
  if (begin % block != 0 || begin + static_cast<std::int64_t>(count) > elements_) {
    throw Error(
        ErrorKind::usage,
        text("errors of [", begin, ", ", begin + static_cast<std::int64_t>(count), ") of ", elements_),
        text("begin at a multiple of ", block, ", and cover() all elements first"));
  }
  return static_cast<std::size_t>(bytes(begin));
}

}  // namespace weft
