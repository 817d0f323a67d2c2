#pragma once
// The one way in which kernels are launched, so that tests can run them on the host (tests/emulation): there the compiler is not
// nvcc, and the header that stands in for CUDA's brings emulated_launch().
//
//   return launch(add_kernel<float, Type>, blocks, threads, stream, to, from, count);
//
// A template's parameters are all written out: nothing is deduced from arguments.

#include <cuda_runtime_api.h>

#include <type_traits>

namespace weft::detail::cuda {

/// @returns what CUDA said of the launch; errors of the kernel itself come later
template <class... Parameters>
cudaError_t launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, cudaStream_t stream,
                   const std::type_identity_t<Parameters>&... arguments) {
#ifdef __CUDACC__
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
  return cudaGetLastError();
#else
  return emulated_launch(reinterpret_cast<const void*>(kernel), blocks, threads, stream,
                         [kernel, arguments...] { kernel(arguments...); });
#endif
}

/// How many thread blocks of a kernel that strides over its work run at a time on the current device: of more, the last ones would begin when the
/// others end.
template <class... Parameters>
cudaError_t blocks_at_a_time(void (*kernel)(Parameters...), int threads, int& blocks) {
  int device = 0;
  int processors = 0;
  int on_each = 0;
  cudaError_t code = cudaGetDevice(&device);
  if (code == cudaSuccess) code = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (code == cudaSuccess) code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&on_each, kernel, threads, 0);
  blocks = processors * on_each;
  return code;
}

}  // namespace weft::detail::cuda
