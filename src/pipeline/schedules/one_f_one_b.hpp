#pragma once
// The row of 1F1B, for however many microbatches a device may have in flight.

#include "rows.hpp"

namespace weft::pipeline::detail {

/// @param in_flight 1 or more
inline void one_f_one_b_row(StageRow row, int microbatches, int in_flight) {
  while (row.forwards() < std::min(in_flight, microbatches)) row.forward();
  while (row.forwards() < microbatches) {
    row.backward();
    row.forward();
  }
  while (row.backwards() < microbatches) row.backward();
}

}  // namespace weft::pipeline::detail
