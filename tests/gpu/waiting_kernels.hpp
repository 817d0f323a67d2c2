#pragma once
// Kernels that hold a device up, and kernels that are launched for the first time: what deadlines have to bear. A kernel waits on the device for
// a word of the host, as NCCL's wait for other ranks.

#include <cuda_runtime_api.h>

namespace weft::test {

/// What a waiting kernel and the host tell each other; in host memory that kernels reach.
struct Signals {
  int begun = 0;
  int released = 0;
};

/// One thread that sets `begun` and waits until `released` is set, for `seconds` at most.
cudaError_t launch_waiting(volatile Signals* signals, double seconds, cudaStream_t stream);

/// Kernels that nothing else launches: each launch of a new number is the first of its kernel.
inline constexpr int fresh_kernels = 64;
cudaError_t launch_fresh(int which, cudaStream_t stream);
/// With 16 KiB of local memory a thread, for which a device may have to make room.
inline constexpr int wide_kernels = 2;
cudaError_t launch_wide(int which, cudaStream_t stream);
/// Has a kernel loaded without a launch.
cudaError_t load_fresh(int which);

}  // namespace weft::test
