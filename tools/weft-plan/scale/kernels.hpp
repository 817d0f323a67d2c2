#pragma once
// Seconds of a layer and of the logits for one micro-batch on one GPU, by class of kernel: products of
// matrices by a roofline with waves of tiles, attention, kernels that only read and write memory, and the
// collectives of tensor and context parallelism as far as nothing hides them.
//
// Plain values, any thread.

#include "weft-plan/scale/plan.hpp"

namespace weft::scale {

/// Of activations, parameters and, unless the software says otherwise, gradients.
inline constexpr double element_bytes = 2;

/// Seconds.
struct Work {
  double gemm = 0;
  double attention = 0;
  double memory = 0;
  double tensor = 0;   ///< exposed collectives of tensor and sequence parallelism
  double context = 0;  ///< exposed exchange of keys and values

  double total() const { return gemm + attention + memory + tensor + context; }
  Work& operator+=(const Work& other);
  friend Work operator*(double factor, Work work);
};

struct Passes {
  Work forward{};
  Work backward_input{};
  Work backward_weight{};
  Work recomputation{};  ///< runs before the backward pass

  double backward() const { return backward_input.total() + backward_weight.total() + recomputation.total(); }
};

/// A product of an m x k and a k x n matrix, so many times.
struct Product {
  double m = 0, n = 0, k = 0;
  double batch = 1;
  Precision precision = Precision::bf16;
  double result_bytes = 2;  ///< of an element: 8 where it is added to an f32 sum
};
double seconds(const Hardware& hardware, const Product& product);

/// A kernel that only reads and writes.
double memory_seconds(const Hardware& hardware, double bytes);

/// @param plan completed
Passes layer_passes(const Model& model, const Hardware& hardware, const Plan& plan);
/// The last norm, the product with the vocabulary, and the loss.
Passes logits_passes(const Model& model, const Hardware& hardware, const Plan& plan);

/// What a computation loses to communication that runs beside it: what is left over when the computation
/// ends, and meanwhile the multiprocessors that the collective takes.
double exposed(const Hardware& hardware, double communication, double computation);

}  // namespace weft::scale
