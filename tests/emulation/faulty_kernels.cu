#include <cuda_runtime_api.h>

#include "emulation/faulty_kernels.hpp"
#include "emulation/grid.hpp"

namespace weft::emulation {
namespace {

constexpr unsigned threads = 64;

__global__ void by_halves(Bug bug, const int* numbers, int* sums) {
  __shared__ int partial[threads];
  if (bug != Bug::shared_before_it_is_written || threadIdx.x > 0)
    partial[threadIdx.x] = numbers[blockIdx.x * threads + threadIdx.x];
  if (bug != Bug::no_barrier) __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
      if (bug == Bug::barrier_in_a_branch) __syncthreads();
    }
    if (bug != Bug::barrier_in_a_branch) __syncthreads();
    if (bug == Bug::barrier_after_return && threadIdx.x >= half) return;
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
  if (bug == Bug::no_barrier_after) partial[threadIdx.x] = 0;
  if (threadIdx.x == 1 && bug == Bug::no_barrier_after) sums[blockIdx.x] += partial[0];
}

__global__ void by_shuffles(Bug bug, const int* numbers, int* sums) {
  int sum = numbers[blockIdx.x * threads + threadIdx.x];
  if (bug == Bug::shuffle_in_a_branch && threadIdx.x % 2 == 0) return;
  const unsigned mask =
      bug == Bug::shuffle_of_half_a_warp ? threadIdx.x % 32 < 16 ? 0xffffU : 0xffff0000U : ~0U;
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(mask, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(sums + blockIdx.x, sum);
}

__global__ void of_all_blocks(Bug bug, const int* numbers, int* sums) {
  const int mine = numbers[blockIdx.x * threads + threadIdx.x];
  if (bug == Bug::counts_by_atomics) atomicAdd(sums, mine);
  if (bug == Bug::says_so_in_a_volatile_word) *static_cast<volatile int*>(sums) = 1;
  if (bug == Bug::blocks_write_the_same && threadIdx.x == 0) sums[0] = 1;
  if (bug == Bug::blocks_count_without_atomics && threadIdx.x == 0) sums[0] += mine;
}

}  // namespace

std::string run_with(Bug bug, unsigned blocks, const int* numbers, int* result) {
  return run(blocks, threads, [=] {
    switch (bug) {
      case Bug::none_in_warps:
      case Bug::shuffle_in_a_branch:
      case Bug::shuffle_of_half_a_warp:
        return by_shuffles(bug, numbers, result);
      case Bug::blocks_write_the_same:
      case Bug::blocks_count_without_atomics:
      case Bug::counts_by_atomics:
      case Bug::says_so_in_a_volatile_word:
        return of_all_blocks(bug, numbers, result);
      default:
        return by_halves(bug, numbers, result);
    }
  });
}

}  // namespace weft::emulation
