#pragma once
// What a rank measured, as numbers of which the largest over ranks are the slowest rank's: the same on all.

#include <span>
#include <vector>

#include "weft/compression/codec_choice.hpp"

namespace weft::detail {

/// Before ranks have agreed.
struct StepFigures {
  StepProfile profile;  ///< but for its link and its slowdown
  /// By bucket. Ranks that are early wait for others in it: the shortest of all ranks' is the wire's.
  std::vector<double> took_seconds;
  std::vector<LinkModel::Sample> link;  ///< of all_reduces, of the same sizes on all ranks
};

std::int64_t numbers_of(std::size_t buckets, std::size_t link_samples);
std::vector<double> to_numbers(const StepFigures& mine);
/// @param mine for what is the same on all ranks: sizes, and what is sharded
StepProfile of_numbers(std::span<const double> numbers, const StepFigures& mine, const BucketPlan& plan);

}  // namespace weft::detail
