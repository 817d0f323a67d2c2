#pragma once
// The number of steps of trainings that must end in the same bits: WEFT_LONG_TRAINING, or 20 if it is not
// set. tests/soak.sh trainings takes 200: after so many, a single bit that differs early has spread to all
// parameters.

#include <cstdint>
#include <cstdlib>

namespace weft::test {

inline std::int64_t long_training() {
  const char* const steps = std::getenv("WEFT_LONG_TRAINING");
  return steps == nullptr ? 20 : std::strtoll(steps, nullptr, 10);
}

}  // namespace weft::test
