#pragma once
// The CUDA under the fake: the emulation's runtime, or the fake of the unit tests.

#include <functional>

#include "collectives/nccl/api.hpp"

namespace weft::fake_nccl {

/// As cudaLaunchHostFunc. False: it is refused.
bool on_stream(detail::nccl::Stream stream, std::function<void()> work);
int current_device();

}  // namespace weft::fake_nccl
