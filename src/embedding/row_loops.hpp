#pragma once
// The loops over rows. Element by element, with no product and sum fused and every sum in one order, so that all machines give the same bits.

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/embedding/table.hpp"

namespace weft::detail {

/// How many rows ahead of the one at hand ask_for() is called, so that several are on their way from memory at once.
inline constexpr int rows_ahead = 12;

/// Asks for a row that will be needed soon: up to four cache lines; of a longer row the processor asks for the rest itself.
void ask_for(const float* row, int columns);

/// to += from
void add_row(float* to, const float* from, int columns);
/// to = factor * from
void scale_row(float* to, const float* from, float factor, int columns);

/// pooled = the samples' bags. @param rows one for each row that is wanted @param places of the indices among them
void pool(const embedding::Bags& bags, embedding::Pooling pooling, std::span<const float* const> rows,
          std::span<const std::int32_t> places, int columns, float* pooled);

/// to = the rows of `slots` in turn
void gather_rows(const float* rows, std::span<const std::int32_t> slots, int columns, float* to);

/// What a step of LazyAdamW does, in f32: m = beta1 m + fresh1 g, v = beta2 v + fresh2 g^2, p = keep p - rate m / (sqrt(v) inverse_root + epsilon)
struct AdamWFactors {
  float beta1 = 0, fresh1 = 0, beta2 = 0, fresh2 = 0;
  float keep = 1;
  float rate = 0;          ///< over 1 - beta1^t
  float inverse_root = 0;  ///< 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
};
void sgd_row(float* row, const float* gradient, float rate, int columns);
/// @param sum the row's h
void adagrad_row(float* row, float* sum, const float* gradient, float rate, float epsilon, int columns);
/// @param gradient null is 0
void adamw_row(float* row, float* first, float* second, const float* gradient, const AdamWFactors& factors,
               int columns);

}  // namespace weft::detail
