#pragma once
// How drivers of kernels launch, in builds with CUDA: on the place's device, and with the driver's words where it refuses.

#include <cuda_runtime_api.h>

#include <atomic>

#include "core/cuda/runtime.hpp"
#include "weft/core/error.hpp"

namespace weft::detail::cuda {

/// What was thrown last: a device that is lost answers every later call with it, and destructors do not say it again.
inline std::atomic<cudaError_t> reported = cudaSuccess;

/// @param launch is given the stream, and returns what CUDA said of its launches
/// @throws Error (system)
template <class Launch>
void launch_at(Place place, const char* kernel, Launch launch) {
  const std::shared_ptr<Runtime> cuda = runtime();
  const Current current(*cuda, place.device);
  const cudaError_t code = launch(place.stream);
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears it, so that no later call reports it again
  reported = code;
  throw Error(ErrorKind::system,
              text("cannot launch ", kernel, " on ", Device::cuda(place.device),
                   ": CUDA: ", cudaGetErrorString(code)),
              "the driver's log (dmesg, Xid) may say more");
}

}  // namespace weft::detail::cuda
