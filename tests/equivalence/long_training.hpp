#pragma once
// How many steps trainings have that must end in the same bits: WEFT_LONG_TRAINING, 20 if it is not set;
// tests/soak.sh trainings takes 200, by when a single bit that differed early has grown to all parameters.

#include <cstdint>
#include <cstdlib>

namespace weft::test {

inline std::int64_t long_training() {
  const char* const steps = std::getenv("WEFT_LONG_TRAINING");
  return steps == nullptr ? 20 : std::strtoll(steps, nullptr, 10);
}

}  // namespace weft::test
