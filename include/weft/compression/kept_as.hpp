#pragma once
// How error feedback stores what a codec did not send.

#include <cstdint>

namespace weft {

enum class KeptAs : std::uint8_t {
  nothing,       ///< no error feedback: it is lost
  sixteen_bits,  ///< integers with one power of two for every 256: to within 2^-15 of the largest of them
  f32,           ///< exactly
};

}  // namespace weft
