#include <cuda_runtime_api.h>

#include <memory>

#include "fake_nccl/streams.hpp"

namespace weft::fake_nccl {

bool on_stream(detail::nccl::Stream stream, std::function<void()> work) {
  using Work = std::function<void()>;
  auto mine = std::make_unique<Work>(std::move(work));
  const auto run = [](void* data) { (*std::unique_ptr<Work>(static_cast<Work*>(data)))(); };
  if (cudaLaunchHostFunc(stream, run, mine.get()) != cudaSuccess) return false;
  (void)mine.release();
  return true;
}

int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

}  // namespace weft::fake_nccl
