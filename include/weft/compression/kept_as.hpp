#pragma once
// In what a rank keeps what a code did not send.

#include <cstdint>

namespace weft {

enum class KeptAs : std::uint8_t {
  nothing,       ///< it is lost, and training with it
  sixteen_bits,  ///< integers behind an exact power of two for every 256: within 2^-15 of the largest of them
  f32,           ///< as it is
};

}  // namespace weft
