#pragma once
// Sizes of buckets for DDP, which takes limits of bytes and fills buckets with gradients in their order.
//
// weft's planner makes the buckets; all ranks must give the same values.

#include <span>
#include <vector>

#include "weft/gradient/bucket_planner.hpp"

namespace weft::distributed {

/// Gradients in the order in which buckets are filled.
struct GradientTimes {
  DataType dtype = DataType::f32;
  std::vector<std::int64_t> counts{};
  std::vector<double> ready_seconds{};
};

/// The bytes of each bucket, which hold the gradients in their order.
/// @param link seconds of an all_reduce by bytes; two sizes at least
/// @throws Error (usage) for times that make no sense
std::vector<std::int64_t> bucket_sizes(const GradientTimes& gradients, std::span<const LinkModel::Sample> link);
/// The same where nothing was measured: buckets are closed as soon as they hold `bytes`.
std::vector<std::int64_t> bucket_sizes(const GradientTimes& gradients, std::size_t bytes);

}  // namespace weft::distributed
