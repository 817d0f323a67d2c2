#include <chrono>
#include <utility>

#include "core/cuda/launch.cuh"
#include "gpu/waiting_kernels.hpp"

namespace weft::test {
namespace {

using detail::cuda::launch;

__device__ long long nanoseconds() {
#ifdef __CUDA_ARCH__
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return static_cast<long long>(now);
#else
  return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

__global__ void wait_kernel(volatile Signals* signals, double seconds) {
  const long long end = nanoseconds() + static_cast<long long>(seconds * 1e9);
  signals->begun = 1;
  while (signals->released == 0 && nanoseconds() < end) {
  }
}

template <int which>
__global__ void fresh_kernel(int* out) {
  if (out != nullptr) *out = which;
}

template <int which>
__global__ void wide_kernel(int* out) {
  volatile int local[4096];
  for (int i = 0; i < 4096; ++i) local[i] = i * which;
  if (out != nullptr) *out = local[*out % 4096];
}

using Kernel = void (*)(int*);

template <int... which>
Kernel fresh_one(int number, std::integer_sequence<int, which...>) {
  const Kernel all[] = {fresh_kernel<which>...};
  return all[number];
}

template <int... which>
Kernel wide_one(int number, std::integer_sequence<int, which...>) {
  const Kernel all[] = {wide_kernel<which>...};
  return all[number];
}

Kernel fresh(int which) {
  return fresh_one(which % fresh_kernels, std::make_integer_sequence<int, fresh_kernels>());
}

}  // namespace

cudaError_t launch_waiting(volatile Signals* signals, double seconds, cudaStream_t stream) {
  return launch(wait_kernel, 1, 1, stream, signals, seconds);
}

cudaError_t launch_fresh(int which, cudaStream_t stream) {
  return launch(fresh(which), 1, 1, stream, nullptr);
}

cudaError_t launch_wide(int which, cudaStream_t stream) {
  const auto kernel = wide_one(which % wide_kernels, std::make_integer_sequence<int, wide_kernels>());
  return launch(kernel, 1, 1, stream, nullptr);
}

cudaError_t load_fresh([[maybe_unused]] int which) {
#ifdef __CUDACC__
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, fresh(which));
#else
  return cudaSuccess;  // the emulation has no such call
#endif
}

}  // namespace weft::test
