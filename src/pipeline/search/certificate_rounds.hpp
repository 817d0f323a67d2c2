#pragma once
// The check of what a certificate says of rounds (rounds.hpp): the same bounds by code of its own, which
// shares nothing with them.

#include <vector>

#include "weft/pipeline/problem.hpp"

namespace weft::pipeline::detail {

/// Times of one device with one stage, from the start of its first forward on; both by microbatch, the first at 0.
struct Recount {
  std::vector<Nanoseconds> forward_begins;
  std::vector<Nanoseconds> gradient_ends;  // of the input
};

/// Empty if the device's memory holds all microbatches, or none.
Recount recount(const Problem& problem, int stage, Bytes limit);

}  // namespace weft::pipeline::detail
