#pragma once
// Kernels with a bug each, and two without.

#include <string>

namespace weft::emulation {

enum class Bug {
  none,              ///< sums by halves in shared memory
  none_in_warps,     ///< sums by shuffles
  no_barrier,        ///< reads what another thread writes
  no_barrier_after,  ///< writes again what another thread may still read
  barrier_in_a_branch,
  barrier_after_return,
  shuffle_in_a_branch,
  shuffle_of_half_a_warp,  ///< reads a lane that its mask does not name
  shared_before_it_is_written,
  blocks_write_the_same,
  blocks_count_without_atomics,
  counts_by_atomics,           ///< no bug
  says_so_in_a_volatile_word,  ///< no bug
};

/// Runs it on `blocks` of 64 threads over as many integers. @returns what is wrong with it; `result` is where it writes
std::string run_with(Bug bug, unsigned blocks, const int* numbers, int* result);

}  // namespace weft::emulation
