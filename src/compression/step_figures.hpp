#pragma once
// What a rank measured, as numbers of which the largest over ranks are the slowest rank's: the same on all.

#include <span>
#include <vector>

#include "weft/compression/codec_choice.hpp"

namespace weft::detail {

std::int64_t numbers_of(std::size_t buckets, std::size_t link_samples);
/// @param mine but for its link @param link of all_reduces, of the same sizes on all ranks
std::vector<double> to_numbers(const StepProfile& mine, std::span<const LinkModel::Sample> link);
/// With the link that is fitted to the samples; whether it is sharded is not among the numbers.
StepProfile of_numbers(std::span<const double> numbers, std::size_t buckets,
                       std::vector<LinkModel::Sample> link);

}  // namespace weft::detail
