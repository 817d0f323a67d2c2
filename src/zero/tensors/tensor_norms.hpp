#pragma once
// Two norms of each tensor, of the parameters and of what moves them, bitwise the same for every way of sharding.
//
// As for the norm of all gradients (zero/optimizer/gradient_norm.hpp): squares are summed in f64 within 16
// elements, in one fixed order, and those sums exactly. Tensors and the parts of buckets begin on cache lines,
// which are whole multiples of 16 elements, so no cut changes a bit. Host memory.

#include "zero/update/exact_sum.hpp"
#include "zero/update/fused_step.hpp"

namespace weft::detail {

struct TensorSquares {
  ExactSum parameters;
  ExactSum updates;
};

/// Adds the squares of the parameters' exact values and of the gradients. @param slice begins on a cache line
void add_gradient_squares(const StepSlice& slice, TensorSquares& to);

/// The same with Adam's direction  rate m / (sqrt(v) + epsilon) + decay p  in the place of gradients.
struct Direction {
  double rate = 1;
  double epsilon = 1e-6;
  double decay = 0;
};
void add_direction_squares(const StepSlice& slice, const Direction& direction, TensorSquares& to);

}  // namespace weft::detail
