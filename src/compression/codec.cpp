#include "weft/compression/codec.hpp"

#include <algorithm>

#include "weft/core/error.hpp"

namespace weft {

double Bound::operator()(double element, double largest_of_block) const {
  return std::max({of_element * element, of_block * largest_of_block, absolute});
}

void Codec::encode(std::span<std::byte> code, std::span<const float> values, const Turn& turn) const {
  expect(code.size(), values.size(), turn);
  if (!values.empty()) do_encode(code, values, turn);
}

void Codec::decode(std::span<float> values, std::span<const std::byte> code, const Turn& turn,
                   Into into) const {
  expect(code.size(), values.size(), turn);
  if (!values.empty()) do_decode(values, code, turn, into);
}

void Codec::expect(std::size_t code, std::size_t values, const Turn& turn) const {
  const std::int64_t bytes = encoded_bytes(static_cast<std::int64_t>(values));
  if (static_cast<std::int64_t>(code) != bytes) {
    throw Error(ErrorKind::usage,
                text(code, " bytes for the ", name(), " code of ", values, " elements, which are ", bytes));
  }
  if (turn.begin % block() != 0) {
    throw Error(ErrorKind::usage, text(name(), " code from element ", turn.begin),
                text("begin at a multiple of ", block()));
  }
}

}  // namespace weft
